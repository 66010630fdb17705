#include "base/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"

namespace sdm {
namespace {

std::vector<double> sorted_copy(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  for (const double x : sorted) SDM_REQUIRE(!std::isnan(x), "a sample is NaN");
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

}  // namespace

double quantile_of_sorted(std::span<const double> sorted, double p) {
  SDM_REQUIRE(!sorted.empty(), "a quantile of no samples was asked for");
  SDM_REQUIRE(p >= 0 && p <= 1, "quantile {} is outside [0, 1]", p);
  const double h = static_cast<double>(sorted.size() - 1) * p;
  const auto below = static_cast<std::size_t>(std::floor(h));
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (h - std::floor(h)) * (sorted[above] - sorted[below]);
}

double median(std::span<const double> samples) { return quantile_of_sorted(sorted_copy(samples), 0.5); }

double Summary::relative_iqr() const {
  if (count == 0 || median == 0) return std::numeric_limits<double>::infinity();
  return (q3 - q1) / median;
}

Summary summarize(std::span<const double> samples) {
  if (samples.empty()) return {};
  const std::vector<double> sorted = sorted_copy(samples);
  const auto at = [&](double p) { return quantile_of_sorted(sorted, p); };
  return {.count = sorted.size(),
          .min = sorted.front(),
          .q1 = at(0.25),
          .median = at(0.5),
          .q3 = at(0.75),
          .p95 = at(0.95),
          .max = sorted.back()};
}

}  // namespace sdm
