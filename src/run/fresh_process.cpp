#include "run/fresh_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "config/expand.h"
#include "io/atomic_file.h"
#include "report/json.h"

extern char** environ;

namespace sdm {
namespace {

namespace fs = std::filesystem;

/// A folder that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (fs::temp_directory_path() / "sdm-bench-XXXXXX").string();
    if (!::mkdtemp(pattern.data())) throw UserError(fmt::format("cannot make a folder {}", pattern));
    path_ = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

/// One config file for each config name: a file has one name.
std::vector<std::string> write_configs(std::span<const Case> cases, const TemporaryFolder& folder) {
  std::vector<std::string> files;
  for (std::size_t begin = 0; begin < cases.size();) {
    const auto name = [&](std::size_t i) { return cases[i].id.substr(0, cases[i].id.find('/')); };
    std::size_t end = begin + 1;
    while (end < cases.size() && name(end) == name(begin)) ++end;
    files.push_back(folder / fmt::format("config{}.json", files.size()));
    write_file(files.back(), effective_config_json(cases.subspan(begin, end - begin)), false);
    begin = end;
  }
  return files;
}

/// Starts `words` with stdout and stderr in `log`, waits, and returns the wait status.
int run_words(std::vector<std::string> words, const std::string& log, const std::function<bool()>& stop) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = -1;
  const int error = posix_spawn(&child, words[0].c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw UserError(fmt::format("{} cannot be started: {}", words[0], std::strerror(error)));
  int status = 0;
  for (bool told = false; ::waitpid(child, &status, WNOHANG) == 0;) {
    if (!told && stop && stop()) ::kill(child, SIGTERM), told = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return status;
}

std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "it said nothing";
  const std::size_t before = text.rfind('\n', end);
  const std::size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, end + 1 - begin);
}

}  // namespace

std::vector<Case> cases_with_process(std::span<const Case> cases) {
  std::vector<Case> out;
  std::copy_if(cases.begin(), cases.end(), std::back_inserter(out), [](const Case& c) {
    return std::any_of(c.checks.begin(), c.checks.end(),
                       [](const CheckSpec& spec) { return spec.kind == CheckSpec::Kind::process; });
  });
  return out;
}

void FreshProcess::run() {
  const TemporaryFolder folder;
  const std::string result = folder / "result.json", log = folder / "log";
  std::vector<std::string> words = {fs::read_symlink("/proc/self/exe").string(), "run"};
  for (std::string& file : write_configs(cases_, folder)) words.push_back(std::move(file));
  words.insert(words.end(), {"--no-checks", "--no-timing", "--quiet", "--output", result});
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  const int status = run_words(std::move(words), log, stop_);
  if (!fs::exists(result))
    throw UserError(fmt::format("the fresh process {}: {}",
                                WIFSIGNALED(status) ? fmt::format("ended by signal {}", WTERMSIG(status))
                                                    : fmt::format("ended with code {}", WEXITSTATUS(status)),
                                last_line(read_file(log))));
  for (CaseResult& c : load_report(result).cases) {
    if (c.status != CaseStatus::ok) c.digests.clear();
    digests_[c.id] = std::move(c.digests);
  }
}

const Digests& FreshProcess::digests(const std::string& case_id) {
  if (!ran_) {
    ran_ = true;
    try {
      run();
    } catch (const UserError& error) {
      failure_ = error.what();
    }
  }
  if (!failure_.empty()) throw UserError(failure_);
  const auto found = digests_.find(case_id);
  if (found == digests_.end()) throw UserError(fmt::format("the fresh process did not run {}", case_id));
  return found->second;
}

}  // namespace sdm
