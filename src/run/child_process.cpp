#include "run/child_process.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/text.h"

namespace sdm {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr double kInterruptGrace = 5;

[[noreturn]] void fail_with_errno(const char* what) {
  throw UserError(fmt::format("cannot start a process: {}: {}", what, std::strerror(errno)));
}

/// A file without a name, in memory.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : descriptor_(::memfd_create(name, MFD_CLOEXEC)) {
    if (descriptor_ < 0) fail_with_errno("memfd_create");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return descriptor_; }

  void fill(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(descriptor_, text.data(), text.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail_with_errno("write");
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    ::lseek(descriptor_, 0, SEEK_SET);
  }

  std::string content() const {
    struct stat info {};
    if (::fstat(descriptor_, &info) != 0) return "";
    std::string text(static_cast<std::size_t>(info.st_size), '\0');
    std::size_t at = 0;
    while (at < text.size()) {
      const ssize_t got = ::pread(descriptor_, text.data() + at, text.size() - at, static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      at += static_cast<std::size_t>(got);
    }
    text.resize(at);
    return text;
  }

 private:
  int descriptor_;
};

/// Between fork and exec: system calls only, as other threads of the parent may have held any lock.
[[noreturn]] void become(char* const* argv, pid_t parent, int in, int out, int err) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // it died before the line above
  if (::dup2(in, STDIN_FILENO) < 0 || ::dup2(out, STDOUT_FILENO) < 0 || ::dup2(err, STDERR_FILENO) < 0) ::_exit(127);
  ::execv("/proc/self/exe", argv);
  ::_exit(127);
}

class Child {
 public:
  Child(const ChildTask& task, const MemoryFile& in, const MemoryFile& out, const MemoryFile& err) : task_(task) {
    std::vector<std::string> words = task.arguments;
    words.insert(words.begin(), "sdm-bench");
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    const pid_t parent = ::getpid();
    id_ = ::fork();
    if (id_ < 0) fail_with_errno("fork");
    if (id_ == 0) become(argv.data(), parent, in.descriptor(), out.descriptor(), err.descriptor());
    ::setpgid(id_, id_);  // on both sides: whoever comes first
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void wait(ChildOutcome& outcome) {
    int status = 0;
    for (auto pause = std::chrono::microseconds(500);; pause = std::min(pause * 2, std::chrono::microseconds(20000))) {
      const pid_t done = ::waitpid(id_, &status, WNOHANG);
      if (done == id_) break;
      if (done < 0 && errno != EINTR) fail_with_errno("waitpid");
      look_after(outcome);
      std::this_thread::sleep_for(pause);
    }
    ::kill(-id_, SIGKILL);  // whatever it started itself; the group is empty as a rule
    if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) outcome.signal_number = WTERMSIG(status);
  }

 private:
  /// Passes an interrupt on once; kills what is over its time.
  void look_after(ChildOutcome& outcome) {
    const auto now = Clock::now();
    if (const int number = task_.interrupt ? task_.interrupt() : 0; number != 0 && !outcome.interrupted) {
      outcome.interrupted = true;
      interrupted_at_ = now;
      ::kill(id_, number);
    }
    const bool over = task_.limit_seconds > 0 && Seconds(now - start_).count() > task_.limit_seconds;
    const bool deaf = outcome.interrupted && Seconds(now - interrupted_at_).count() > kInterruptGrace;
    if (!killed_ && (over || deaf)) {
      killed_ = true;
      outcome.over_limit = over && !outcome.interrupted;
      ::kill(-id_, SIGKILL);
    }
  }

  const ChildTask& task_;
  pid_t id_ = -1;
  Clock::time_point start_ = Clock::now(), interrupted_at_;
  bool killed_ = false;
};

/// The last line that says something.
std::string last_line(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  const std::size_t begin = text.rfind('\n');
  std::string line = begin == std::string::npos ? text : text.substr(begin + 1);
  if (line.starts_with("sdm-bench: ")) line.erase(0, 11);
  return shorten(line, 300);
}

}  // namespace

std::string how_it_ended(const ChildOutcome& outcome) {
  std::string how = fmt::format("ended with exit code {}", outcome.exit_code);
  if (outcome.signal_number != 0)
    how = fmt::format("was ended by signal {} ({}){}", outcome.signal_number, strsignal(outcome.signal_number),
                      outcome.signal_number == SIGKILL ? ", which the system sends when memory runs out" : "");
  const std::string line = last_line(outcome.err);
  return line.empty() ? how : how + ": " + line;
}

ChildOutcome run_child(const ChildTask& task) {
  const MemoryFile in("case"), out("result"), err("log");
  in.fill(task.input);
  ChildOutcome outcome;
  Child(task, in, out, err).wait(outcome);
  outcome.out = out.content();
  outcome.err = err.content();
  return outcome;
}

}  // namespace sdm
