#include "report/compare_values.h"

#include <cmath>

#include "base/error.h"

namespace sdm {
namespace {

Measured measured(const SampleStats& time, Metric metric) {
  if (time.samples_us.empty()) return {};
  if (metric == Metric::median_us) return {time.median_us, time.q1_us, time.q3_us, time.samples_us.size()};
  const double value = metric == Metric::min_us ? time.min_us : time.p95_us;
  return {value, value, value, 0};
}

/// Values that follow from the pooled median are made from it, so that they agree with the time beside them.
template <typename Timing>
Measured scaled_by_time(const Timing& timing, const std::optional<double>& value) {
  if (!timing.bytes_moved || !timing.bytes_per_second || timing.time.median_us <= 0 || *timing.bytes_per_second <= 0)
    return single_value(value);
  const double pooled = *timing.bytes_moved / timing.time.median_us * 1e6;
  return single_value(value ? std::optional(*value * (pooled / *timing.bytes_per_second)) : std::nullopt);
}

std::string spread_text(const Measured& side) {
  return fmt::format("{:.1f} %", 100 * (side.q3 - side.q1) / std::abs(*side.value));
}

}  // namespace

Measured single_value(const std::optional<double>& value) {
  if (!value || !std::isfinite(*value)) return {};
  return {*value, *value, *value, 0};
}

Measured value_of(const PassTiming& pass, Metric metric) {
  switch (metric) {
    case Metric::host_us: return single_value(pass.host_us);
    case Metric::bytes_per_second: return scaled_by_time(pass, pass.bytes_per_second);
    case Metric::roof_percent:
    case Metric::peak_memory_bytes: return {};
    default: return measured(pass.time, metric);
  }
}

Measured value_of(const StageTiming& stage, Metric metric) {
  switch (metric) {
    case Metric::bytes_per_second: return scaled_by_time(stage, stage.bytes_per_second);
    case Metric::roof_percent: return scaled_by_time(stage, stage.roof_percent);
    case Metric::host_us:
    case Metric::peak_memory_bytes: return {};
    default: return measured(stage.time, metric);
  }
}

Verdict judge(const Measured& base, const Measured& now, const Limit& limit, const CompareRules& rules,
              std::string& note) {
  if (!base.value || !now.value) {
    note = fmt::format("the {} side has no value", base.value ? "new" : "base");
    return Verdict::not_timed;
  }
  const double change = *now.value - *base.value, size = std::abs(change);
  const bool beyond = size > limit.absolute && size > limit.relative * std::abs(*base.value);
  const auto wide = [&](const Measured& side) {
    return side.samples > 0 && side.q3 - side.q1 > rules.max_rel_iqr * std::abs(*side.value) &&
           side.q3 - side.q1 > limit.absolute;
  };
  if (!beyond) {
    if (!wide(base) && !wide(now)) return Verdict::same;
    note =
        fmt::format("the {} side spreads over {}", wide(base) ? "base" : "new", spread_text(wide(base) ? base : now));
    return Verdict::ambiguous;
  }
  for (const auto& [side, name] : {std::pair{&base, "base"}, {&now, "new"}})
    if (side->samples > 0 && side->samples < rules.min_samples) {
      note = fmt::format("the {} side has {} of {} samples", name, side->samples, rules.min_samples);
      return Verdict::ambiguous;
    }
  if (now.q1 <= base.q3 && base.q1 <= now.q3) {
    note = "the quartile intervals overlap";
    return Verdict::ambiguous;
  }
  const bool better =
      (change < 0 && limit.direction == Direction::lower) || (change > 0 && limit.direction == Direction::higher);
  return better ? Verdict::faster : Verdict::slower;
}

}  // namespace sdm
