#pragma once
#include <cstddef>
#include <span>

namespace sdm {

/// The quantile `p` in [0, 1] of values in ascending order, by linear interpolation between the two nearest order
/// statistics: with h = (n-1)*p it is x[floor(h)] + (h - floor(h)) * (x[floor(h)+1] - x[floor(h)]). This is type 7 of
/// Hyndman and Fan, "Sample quantiles in statistical packages" (1996), the default of numpy and R.
/// Needs at least one value, none of them NaN.
double quantile_of_sorted(std::span<const double> sorted, double p);

double median(std::span<const double> samples);

struct Summary {
  std::size_t count = 0;  ///< 0: nothing else is meaningful, all are 0
  double min = 0, q1 = 0, median = 0, q3 = 0, p95 = 0, max = 0;

  /// (q3 - q1) / median: the stop rule's measure of spread. Infinite where the median is 0 or there is no sample.
  double relative_iqr() const;
};

/// Samples in any order, none of them NaN.
Summary summarize(std::span<const double> samples);

}  // namespace sdm
