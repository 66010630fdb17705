#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/compare_merge.h"
#include "report/compare_rules.h"

namespace sdm {

/// How a value of the new side stands to the base (spec 5.6).
enum class Verdict : std::uint8_t {
  same,       ///< within the limit
  faster,     ///< better: past both limits, quartile intervals disjoint
  slower,     ///< worse, likewise
  ambiguous,  ///< past the limits but not surely so, or too widely spread to tell
  not_timed,  ///< one side has no value
};
constexpr std::string_view name_of(Verdict verdict) {
  constexpr std::string_view names[] = {"same", "faster", "slower", "ambiguous", "not_timed"};
  return names[static_cast<std::size_t>(verdict)];
}

enum class DigestVerdict : std::uint8_t { equal, differ, not_compared };
constexpr std::string_view name_of(DigestVerdict verdict) {
  constexpr std::string_view names[] = {"equal", "differ", "not_compared"};
  return names[static_cast<std::size_t>(verdict)];
}

enum class Presence : std::uint8_t { both, missing, added };  ///< missing: in the base alone
constexpr std::string_view name_of(Presence presence) {
  constexpr std::string_view names[] = {"both", "missing", "added"};
  return names[static_cast<std::size_t>(presence)];
}

/// A value with its quartile interval; without samples behind it the interval is the point.
struct Measured {
  std::optional<double> value;
  double q1 = 0, q3 = 0;
  std::size_t samples = 0;  ///< 0: a single value by its nature
};

struct CompareRow {
  std::string pass, stage, l2;  ///< stage empty: the pass; all empty: the case
  Metric metric = Metric::median_us;
  Measured base, now;
  std::optional<double> relative;  ///< (now - base) / base; none where base is 0 or a value is missing
  Verdict verdict = Verdict::same;
  std::string note;  ///< why ambiguous or not timed
};

struct ComparedCase {
  std::string id;
  Presence presence = Presence::both;
  CaseStatus base_status = CaseStatus::not_run, new_status = CaseStatus::not_run;
  std::string reason;  ///< of a side that is not ok, or why nothing is comparable; empty: all well
  bool comparable = true;
  DigestVerdict digests = DigestVerdict::not_compared;
  std::string digest_note;             ///< why not compared
  std::vector<std::string> differing;  ///< "stage/tensor"
  std::vector<std::string> lost;       ///< "stage/tensor" that the new side no longer has
  int tensors = 0;                     ///< compared
  std::vector<CompareRow> rows;

  bool failed() const { return new_status == CaseStatus::failed || digests == DigestVerdict::differ; }
};

enum class Outcome : std::uint8_t { good, failed, regression, inconclusive };
constexpr std::string_view name_of(Outcome outcome) {
  constexpr std::string_view names[] = {"good", "failed", "regression", "inconclusive"};
  return names[static_cast<std::size_t>(outcome)];
}

struct CompareTally {
  int cases = 0, missing = 0, added = 0, failed = 0, not_comparable = 0;
  int digests_equal = 0, digests_differ = 0, digests_not_compared = 0;
  int same = 0, faster = 0, slower = 0, ambiguous = 0, not_timed = 0;
};

struct Comparison {
  MergedSide base, now;
  CompareRules rules;
  std::string refused;              ///< why times were not compared at all (another device)
  std::vector<ComparedCase> cases;  ///< in the base's order, then what was added
  std::string more_samples;         ///< the command that takes more samples of the ambiguous cases; empty: none needed
  CompareTally tally;
  Outcome outcome = Outcome::good;
};

/// Compares two sides. Failed cases of the new side and digests that differ outweigh a regression, that outweighs what
/// could not be compared; the last matters where nothing was comparable or the rules say require_all.
Comparison compare(MergedSide base, MergedSide now, const CompareRules& rules);

/// The verdict on one value. `limit.direction` must not be off.
Verdict judge(const Measured& base, const Measured& now, const Limit& limit, const CompareRules& rules,
              std::string& note);

/// Throws UserError unless a comparison has that format.
void check_comparison_format(std::string_view format);

/// A comparison as text that ends with a line break: table, md, json, junit. Throws UserError for another format.
std::string render_comparison(const Comparison& comparison, std::string_view format, bool color, bool verbose);

}  // namespace sdm
