#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sdm {

/// What is better: a smaller value, a larger one, neither (any change counts as worse), or the metric is not judged.
enum class Direction : std::uint8_t { lower, higher, either, off };
constexpr std::string_view name_of(Direction direction) {
  constexpr std::string_view names[] = {"lower", "higher", "either", "off"};
  return names[static_cast<std::size_t>(direction)];
}

/// What is compared of a pass or a stage (peak_memory_bytes: of a case). Only median_us has quartiles; the others are
/// single values, whose intervals are points.
enum class Metric : std::uint8_t {
  median_us,
  min_us,
  p95_us,
  host_us,
  bytes_per_second,
  roof_percent,
  peak_memory_bytes
};
inline constexpr int kMetrics = 7;
std::string_view name_of(Metric metric);
Direction natural_direction(Metric metric);  ///< of the metric itself, whatever the rules say

/// A change counts once it passes both bounds.
struct Limit {
  Direction direction = Direction::off;
  double relative = 0.05;  ///< of the base value
  double absolute = 0;     ///< in the metric's unit
  friend bool operator==(const Limit&, const Limit&) = default;
};

/// How a comparison judges (spec 5.6). By default median_us alone, at 5 % and 0.5 µs.
struct CompareRules {
  std::map<Metric, Limit> metrics = {{Metric::median_us, {Direction::lower, 0.05, 0.5}}};
  std::map<std::string, std::map<Metric, Limit>> stages;  ///< stage or pass name -> what differs there
  std::size_t min_samples = 8;  ///< fewer on a side: neither faster nor slower. Of 8 and 8 samples of one distribution
                                ///< the quartile intervals are disjoint one time in 20 or so, hence the thresholds
  double max_rel_iqr = 0.25;    ///< medians within the limit, but a spread above this: ambiguous
  bool digests_only = false;    ///< no times; then other devices are welcome
  bool cross_device = false;    ///< compare times of different devices
  bool require_all = false;     ///< gate: what was not compared is not passed

  /// The limit of a metric at a stage ("prepare", "forward" and "backward" name what is timed as a whole).
  /// Direction::off: not judged.
  Limit limit(const std::string& stage, Metric metric) const;
};

/// Reads a thresholds file (docs/compare.md) over `rules`. Strict: throws ConfigErrors with every problem, each with
/// line, path, legal values and a did-you-mean. `file` names the text in messages.
void read_thresholds(std::string_view text, const std::string& file, CompareRules& rules);

}  // namespace sdm
