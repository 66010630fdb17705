#include "io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace sdm {
namespace {

namespace fs = std::filesystem;

/// True for what has no name to rename over: stdout, devices, pipes, sockets.
bool written_directly(const std::string& path) {
  if (path == "-") return true;
  std::error_code ignored;
  const fs::file_status status = fs::status(path, ignored);
  return fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

/// Where the file really is, or will be: links are followed, so that they still point to the result afterwards.
fs::path resolve(const std::string& path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  fs::path at = path;
  for (int links = 0; links <= kMostLinks; ++links) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(at, error))) return at;
    const fs::path next = fs::read_symlink(at, error);
    if (error) break;
    at = next.is_absolute() ? next : at.parent_path() / next;
  }
  throw UserError(fmt::format("cannot write {}: a link that leads nowhere", path));
}

/// Refuses what can be told from names alone.
void check_names(const std::string& path, bool force) {
  if (path.empty()) throw UserError("the output path is empty; give a file name, or - for stdout");
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) throw UserError(fmt::format("cannot write {}: it is a folder", path));
  const fs::path folder = resolve(path).parent_path();
  if (!folder.empty() && !fs::exists(folder, ignored))
    throw UserError(fmt::format("cannot write {}: the folder {} does not exist", path, folder.string()));
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    throw UserError(fmt::format("cannot write {}: {} is not a folder", path, folder.string()));
  if (!force && fs::exists(path, ignored))
    throw UserError(fmt::format("{} exists already; choose another name, or pass --force to replace it", path));
}

/// Creates a file of a name not taken yet beside `target`; the permissions follow the umask, as for any new file.
int create_temporary(const fs::path& target, std::string& name) {
  static std::atomic<unsigned> counter{0};
  for (int attempt = 0; attempt < 100; ++attempt) {
    name = (target.parent_path() /
            fmt::format(".{}.{}-{}.tmp", target.filename().string().substr(0, 200), ::getpid(), counter.fetch_add(1)))
               .string();
    const int file = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0 || errno != EEXIST) return file;
  }
  return -1;
}

/// Renames without replacing, where the file system can; elsewhere the test and the rename are two steps.
int rename_to(const std::string& from, const std::string& to, bool replace) {
  if (replace) return ::rename(from.c_str(), to.c_str());
  const int result = ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE);
  if (result == 0 || (errno != EINVAL && errno != ENOSYS)) return result;
  if (::access(to.c_str(), F_OK) == 0) return errno = EEXIST, -1;
  return ::rename(from.c_str(), to.c_str());
}

/// Makes the rename itself durable. Best effort: not every file system lets a folder be synced.
void sync_folder(const fs::path& target) {
  const std::string folder = target.has_parent_path() ? target.parent_path().string() : ".";
  const int file = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  ::fsync(file);
  ::close(file);
}

}  // namespace

void check_writable(const std::string& path, bool force) {
  if (written_directly(path)) {
    if (path != "-" && ::access(path.c_str(), W_OK) != 0)
      throw UserError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
    return;
  }
  check_names(path, force);
  // Only the attempt tells about permissions, read-only file systems and quotas.
  std::string name;
  const int file = create_temporary(resolve(path), name);
  if (file < 0) throw UserError(fmt::format("cannot write {}: {}", path, std::strerror(errno)));
  ::close(file);
  ::unlink(name.c_str());
}

AtomicFile::AtomicFile(const std::string& path, bool force) : path_(path), force_(force) {
  if (written_directly(path)) {
    // Text printed so far through stdio must come first.
    if (path == "-") std::fflush(stdout);
    descriptor_ = path == "-" ? ::dup(STDOUT_FILENO) : ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    check_names(path, force);
    target_ = resolve(path).string();
    descriptor_ = create_temporary(target_, temporary_);
    if (descriptor_ < 0) temporary_.clear();
  }
  if (descriptor_ < 0) fail("cannot write", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

void AtomicFile::fail(std::string_view what, int error) const {
  throw UserError(fmt::format("{} {}: {}", what, path_ == "-" ? "to stdout" : path_, std::strerror(error)));
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  SDM_REQUIRE(descriptor_ >= 0, "{} was written after commit", path_);
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("cannot write", errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void AtomicFile::commit() {
  SDM_REQUIRE(descriptor_ >= 0, "{} was committed twice", path_);
  // Devices and pipes refuse to be synced; that is no failure.
  if (::fsync(descriptor_) != 0 && errno != EINVAL && errno != EROFS && errno != ENOTSUP) fail("cannot write", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("cannot write", errno);
  if (temporary_.empty()) return;
  if (rename_to(temporary_, target_, force_) != 0) {
    if (errno != EEXIST) fail("cannot write", errno);
    throw UserError(
        fmt::format("{} came into being while its content was prepared; pass --force to replace it", path_));
  }
  temporary_.clear();
  sync_folder(target_);
}

void write_file(const std::string& path, std::string_view text, bool force) {
  AtomicFile file(path, force);
  file.write(text);
  file.commit();
}

std::string read_file(const std::string& path) {
  const int file = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) throw UserError(fmt::format("cannot open {}: {}", path, std::strerror(errno)));
  std::string text;
  char block[64 * 1024];
  ssize_t got = 0;
  while ((got = ::read(file, block, sizeof block)) > 0 || (got < 0 && errno == EINTR))
    if (got > 0) text.append(block, static_cast<std::size_t>(got));
  const int error = errno;
  ::close(file);
  if (got < 0) throw UserError(fmt::format("cannot read {}: {}", path == "-" ? "stdin" : path, std::strerror(error)));
  return text;
}

}  // namespace sdm
