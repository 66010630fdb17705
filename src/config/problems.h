#pragma once
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"

namespace sdm {

/// One thing wrong with a config.
struct ConfigProblem {
  std::string file;     ///< as given, or "--set path=value"
  int line = 0;         ///< 1-based; 0: no line (a --set)
  std::string path;     ///< for example cases[0].workload.chunk; empty for text that is not JSON
  std::string message;  ///< the bad value, the legal values, a did-you-mean

  /// "file:line: path: message"
  std::string text() const;
};

/// Everything wrong with the given configs, one line a problem.
struct ConfigErrors : UserError {
  explicit ConfigErrors(std::vector<ConfigProblem> problems_, std::size_t dropped = 0);
  std::vector<ConfigProblem> problems;
};

namespace config {

/// Where a value begins in its file, both 1-based; column counts bytes. Line 0: nowhere.
struct Location {
  int line = 0;
  int column = 0;
};

/// Where a setting comes from: enough to point a person to it.
struct Origin {
  std::string file;
  Location at;
  std::string path;
};

/// Collects problems; the same line is kept once, because one bad value meets many cases of a sweep.
class Problems {
 public:
  void add(const Origin& origin, std::string message);
  bool empty() const { return list_.empty(); }
  /// Whether further problems are only counted: then their wording need not be worked out.
  bool full() const { return list_.size() >= kKept; }
  /// Throws ConfigErrors when there is anything to report.
  void raise() const;

 private:
  static constexpr std::size_t kKept = 200;  ///< more lines than anybody reads
  std::vector<ConfigProblem> list_;
  std::set<std::string> seen_;
  std::size_t dropped_ = 0;
};

/// "; did you mean "chunk"?" for the nearest of the legal words (base/text.h), or nothing when none is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& legal);

/// "a, b, c"
std::string joined(const std::vector<std::string>& words);

/// Quoted and escaped, shortened to about 60 characters.
std::string in_quotes(std::string_view text);

}  // namespace config
}  // namespace sdm
