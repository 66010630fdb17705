#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sdm {

/// Keeps the results of a running job on disk: one line per finished case in `<output>.journal`, handed to the system
/// before append() returns, so that a crash, Ctrl-C or loss of power costs no finished case. Once the final file is
/// written, remove() deletes it.
class Journal {
 public:
  static std::string path_for(const std::string& output) { return output + ".journal"; }

  /// Starts an empty journal for `output`. A leftover one holds results of an interrupted run: it is refused with the
  /// way to recover it, unless `force`. With the output "-", or a device, nothing is kept. Throws UserError.
  Journal(const std::string& output, bool force);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  /// `line` without line breaks. Where it cannot be written (a full disk) the journal is cut back to its last whole
  /// line, takes no more, and is no longer complete().
  void append(std::string_view line);

  bool kept() const { return !path_.empty(); }
  bool complete() const { return why_.empty(); }
  /// One sentence, empty while all is well.
  const std::string& why_incomplete() const { return why_; }

  /// After the final file was written. The journal stays on disk without it.
  void remove();

 private:
  void give_up(int error);

  std::string path_;  ///< empty: nothing is kept
  std::string why_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;  ///< of whole lines
};

struct RecoveredJournal {
  std::vector<std::string> lines;  ///< the complete ones, in order
  bool torn = false;               ///< a last line without its end was dropped
};

/// Reads a leftover journal by its own path. Throws UserError if it cannot be read.
RecoveredJournal recover_journal(const std::string& journal_path);

}  // namespace sdm
