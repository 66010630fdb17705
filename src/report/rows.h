#pragma once
#include <optional>
#include <string>
#include <vector>

#include "report/result.h"

namespace sdm {

/// One line of a timing table: a pass as a whole, or a stage within it. Points into the CaseResult.
struct TimingRow {
  bool is_pass = false;
  std::string pass, l2;
  std::string stage;         ///< "" for a pass
  std::optional<int> calls;  ///< none for a pass
  const SampleStats* time = nullptr;
  std::optional<double> host_us, host_us_per_step, bytes_moved, flops, bytes_per_second, roof_percent;
  const ResolvedVariant* variant = nullptr;  ///< of the stage, if one was resolved
};

/// Passes in their order, each followed by its stages; stages of a pass that was not timed as a whole come last.
std::vector<TimingRow> timing_rows(const CaseResult& result);

/// "forward (cold)", "gather".
std::string row_label(const TimingRow& row);

/// How the cases of a report ended.
struct Tally {
  int cases = 0, passed = 0, failed = 0, skipped = 0;
  int other = 0;                  ///< out of memory, timed out, error, not run
  std::optional<double> seconds;  ///< sum over the cases that have a wall time
};
Tally tally(const Report& report);

/// "12 cases: 10 passed, 1 failed, 1 skipped, 0 could not run · 12.40 s".
std::string summary_line(const Report& report);

/// "sdm-bench 0.1.0 (890af19, modified) · NVIDIA H200 · run 2026-08-01T12:00:00Z"; what is missing is left out.
std::string title_line(const Report& report);

/// Facts worth a line beside the timings: groups, peak memory, wall time; empty if there are none.
std::vector<std::string> fact_phrases(const CaseResult& result);

/// What ran: the variant, with its guarantee when that is weaker than exact.
std::string variant_label(const ResolvedVariant* variant);

/// What the case's checks say about determinism: a line on the levels of the chosen variants, one on the others, one
/// for each variant below cpu_equal with its reason, one for each price. Empty where no check spoke.
std::vector<std::string> determinism_lines(const CaseResult& result);

/// What a reader of the timings must know: samples below the clock threshold, spreads that did not settle.
std::vector<std::string> timing_notes(const CaseResult& result);

}  // namespace sdm
