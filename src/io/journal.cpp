#include "io/journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "io/atomic_file.h"

namespace sdm {

Journal::Journal(const std::string& output, bool force) {
  struct stat info {};
  const bool special = ::stat(output.c_str(), &info) == 0 && !S_ISREG(info.st_mode);
  if (output == "-" || special) return;
  path_ = path_for(output);
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (force ? O_TRUNC : O_EXCL);
  descriptor_ = ::open(path_.c_str(), flags, 0666);
  if (descriptor_ < 0 && errno == EEXIST)
    throw UserError(
        fmt::format("{0} holds the results of an interrupted run; read them with 'sdm-bench report {0}', or "
                    "pass --force to discard them",
                    path_));
  if (descriptor_ < 0) throw UserError(fmt::format("cannot write {}: {}", path_, std::strerror(errno)));
}

Journal::~Journal() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Journal::append(std::string_view line) {
  if (path_.empty() || !complete()) return;
  SDM_REQUIRE(descriptor_ >= 0, "the journal {} was removed already", path_);
  SDM_REQUIRE(line.find('\n') == std::string_view::npos, "a journal line has a line break");
  // One write call per line, so that a line is torn only by the system, never by a signal between two calls.
  const std::string text = std::string(line) + '\n';
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return give_up(errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  size_ += static_cast<std::int64_t>(text.size());
  // Some file systems tell of a full disk only now. That a pipe or a network folder cannot be synced is no failure.
  if (::fdatasync(descriptor_) != 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO)) give_up(errno);
}

void Journal::give_up(int error) {
  why_ = fmt::format("cannot write {}: {}", path_, std::strerror(error));
  if (::ftruncate(descriptor_, size_) != 0) why_ += fmt::format(", and its last line may be torn");
}

void Journal::remove() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  descriptor_ = -1;
  if (::unlink(path_.c_str()) != 0 && errno != ENOENT)
    throw UserError(fmt::format("cannot remove {}: {}", path_, std::strerror(errno)));
}

RecoveredJournal recover_journal(const std::string& journal_path) {
  const std::string text = read_file(journal_path);
  RecoveredJournal recovered;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    if (end > begin) recovered.lines.push_back(text.substr(begin, end - begin));
  recovered.torn = begin < text.size();
  return recovered;
}

}  // namespace sdm
