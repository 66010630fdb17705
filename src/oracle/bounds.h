#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "oracle/sparse.h"

namespace sdm {

namespace oracle {

/// An element may differ from the oracle by this many standard deviations; and an element whose rounding boundary is
/// nearer than this counts as able to round the other way. The one safety factor of the bounds: variances already
/// count every rounding at its worst size (three times the variance of an even spread), so 8 leaves the tails of sums
/// and moderate correlation between terms.
inline constexpr double kSafety = 8.0;

/// Factor of the rms bound when `count` elements share the variance: kSafety for one, 3 for many. A few large variances
/// among small ones count as few: count = (sum V)^2 / sum V^2 (docs/oracle.md, "Verdict").
double rms_safety(double count);

/// Absolute slack of every bound: what subnormal weights may lose.
inline constexpr double kTiny = 1e-35;

/// Variance after a row element `x` (before rounding) with error variance `variance` was rounded to `dtype`.
/// `rounded`: the oracle rounds too, so an element that cannot reach its rounding boundary comes out exact.
double variance_after_rounding(double x, double variance, DType dtype, bool rounded);

/// Variances of a saved row after the snapshot's round trip, in place. `row` holds the values before it.
void variance_after_snapshot(std::span<const double> row, std::span<double> variance, SnapshotFormat format,
                             DType bank_dtype);

}  // namespace oracle

/// What the implementation made, in the layouts of OracleResult; an empty span is not compared.
struct ComparedOutputs {
  std::span<const float> reading, final_bank, d_bank, d_k, d_q, d_v, d_beta, d_g;
};

/// One output's verdict. Anomalies (NaN, infinity) must match in place before anything else counts.
struct OutputVerdict {
  std::string name;
  bool passed = false;
  std::int64_t anomalies = 0;                  ///< elements where one side is not finite and the other differs
  double max_abs_error = 0;                    ///< over the whole output
  double worst_ratio = 0;                      ///< largest error / bound of an element
  double bound = 0;                            ///< at the worst element
  double rms_error = 0, rms_bound = 0;         ///< of the step (banks: of the stream) with the largest ratio
  std::int64_t worst_index = 0;                ///< flat index of the worst element, or of the first anomaly
  std::vector<std::int64_t> worst_coordinate;  ///< the same as coordinates of the output's shape
  double worst_value = 0, worst_expected = 0;  ///< the implementation's and the oracle's value there
  std::string detail;                          ///< one sentence for reports
};

/// Judges every non-empty output of `outputs`. `oracle` must have been run with bounds.
std::vector<OutputVerdict> compare(const SparseWorkload& workload, const OracleResult& oracle,
                                   const ComparedOutputs& outputs);

}  // namespace sdm
