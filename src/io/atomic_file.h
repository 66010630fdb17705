#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace sdm {

/// Tests, before any measuring, that an output path can be written later: its folder exists and takes new files, it is
/// no folder itself, and it does not exist yet (unless `force`). "-" is stdout. Throws UserError. Leaves nothing
/// behind.
void check_writable(const std::string& path, bool force);

/// A file that appears under its name whole or not at all: written to a temporary file in the same folder, then synced
/// and renamed by commit(); without commit() the temporary file is removed and the old file stays as it was.
/// Links are followed. Devices and pipes (/dev/null, /dev/stdout) and "-" cannot be renamed over and are written
/// directly. Every failure, a full disk too, throws UserError with the path and the system's reason.
class AtomicFile {
 public:
  AtomicFile(const std::string& path, bool force);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  void commit();

 private:
  [[noreturn]] void fail(std::string_view what, int error) const;

  std::string path_;       ///< as the user gave it, for messages
  std::string target_;     ///< with links resolved; empty when written directly
  std::string temporary_;  ///< empty when written directly or committed
  bool force_;
  int descriptor_ = -1;
};

/// AtomicFile in one call.
void write_file(const std::string& path, std::string_view text, bool force);

/// The whole file as text; "-" is stdin. Throws UserError.
std::string read_file(const std::string& path);

}  // namespace sdm
