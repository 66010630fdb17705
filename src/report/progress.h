#pragma once
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>

#include "report/result.h"
#include "report/terminal.h"

namespace sdm {

struct ProgressStyle {
  bool bar = false;  ///< one line that is redrawn; else a line per case
  bool color = false;
  bool quiet = false;  ///< nothing but warnings
  std::size_t width = 80;
};

/// What suits stderr: a bar on a terminal, plain lines elsewhere.
ProgressStyle progress_style(bool quiet, ColorMode color);

/// Tells on stderr how far a job is; stdout is never touched. Not for use from several threads at once.
class Progress {
 public:
  using Clock = std::function<double()>;  ///< seconds, monotonic

  /// `out` and `clock` are replaced by tests.
  Progress(int total, ProgressStyle style, std::FILE* out = stderr, Clock clock = {});
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void start_case(std::string_view id);
  /// What the case is at: "generate", "check replay", "time forward". Shown by the bar only.
  void phase(std::string_view what);
  void finish_case(CaseStatus status, std::string_view reason = "");
  /// A line of its own above the bar; shown even when quiet.
  void warn(std::string_view text);
  /// A line of its own above the bar; not when quiet.
  void note(std::string_view text);
  /// Takes the bar away. Called by the destructor as well.
  void finish();

 private:
  void draw(bool force);
  void erase();
  void print_line(std::string_view text);
  std::string bar_text() const;

  int total_, done_ = 0, failed_ = 0;
  ProgressStyle style_;
  std::FILE* out_;
  Clock clock_;
  double started_, case_started_ = 0, drawn_ = -1;
  bool visible_ = false;
  std::string id_, phase_;
};

}  // namespace sdm
