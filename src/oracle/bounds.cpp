#include "oracle/bounds.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "oracle/rounding.h"

namespace sdm {

namespace oracle {

double rms_safety(double count) { return 3 + (kSafety - 3) / std::sqrt(std::max(1.0, count)); }

double variance_after_rounding(double x, double variance, DType dtype, bool rounded) {
  if (rounded && variance == 0) return 0;
  const double reach = kSafety * std::sqrt(variance);
  const double gap = spacing(std::fabs(x) + reach, dtype);
  if (rounded && round_to(x - reach, dtype) == round_to(x + reach, dtype)) return 0;  // (14)
  return variance + gap * gap;                                                        // (15)
}

void variance_after_snapshot(std::span<const double> row, std::span<double> variance, SnapshotFormat format,
                             DType bank_dtype) {
  if (format == SnapshotFormat::per_entry || format == SnapshotFormat::raw) return;
  if (format == SnapshotFormat::bf16) {
    for (std::size_t c = 0; c < row.size(); ++c)
      variance[c] = variance_after_rounding(row[c], variance[c], DType::bf16, true);
    return;
  }
  // (17) the scale follows the row's largest element, whichever that may be
  double amax = 0, amax_variance = 0;
  for (double x : row) amax = std::max(amax, std::fabs(x));
  for (std::size_t c = 0; c < row.size(); ++c) {
    const double reach = 2 * kSafety * std::sqrt(variance[c]);
    if (variance[c] > 0 && std::fabs(row[c]) + reach >= amax) amax_variance = std::max(amax_variance, variance[c]);
  }
  const float scale = quantized_scale(row, format);
  const double scale_relative = amax > 0 ? amax_variance / (amax * amax) : 0.0;
  const auto payload = [&](double y) { return format == SnapshotFormat::fp8 ? round_e4m3(y) : round_int4(y); };
  for (std::size_t c = 0; c < row.size(); ++c) {
    const double y = static_cast<float>(row[c]) / scale;
    const double y_variance = variance[c] / (double{scale} * scale) + y * y * scale_relative;
    if (y_variance == 0) continue;
    const double reach = kSafety * std::sqrt(y_variance), at = payload(y);
    const double low = payload(y - reach), high = payload(y + reach);
    const double step = std::max(high - at, at - low);
    const double restored = at * scale;
    // The scale's error is one for the whole row. Rows that come back meet dots over the row only, whose square it can
    // raise by (sum |x y|)^2 <= D sum (x y)^2.
    const double shared = restored * restored * scale_relative * static_cast<double>(row.size());
    const double restored_variance = shared + step * step * scale * scale;
    variance[c] = variance_after_rounding(restored, restored_variance, bank_dtype, true);
  }
}

}  // namespace oracle

namespace {

struct Named {
  const char* name;
  const OracleOutput& expected;
  std::span<const float> got;
  std::int64_t block;  // elements judged together by rms
  std::vector<std::int64_t> shape;
};

std::vector<std::int64_t> coordinate_of(std::int64_t index, const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> at(shape.size());
  for (std::size_t i = shape.size(); i-- > 0; index /= shape[i]) at[i] = index % shape[i];
  return at;
}

void point_at(std::int64_t index, const Named& o, OutputVerdict& v) {
  v.worst_index = index;
  v.worst_coordinate = coordinate_of(index, o.shape);
  v.worst_value = o.got[index];
  v.worst_expected = o.expected.value[index];
}

/// Not finite on one side only, or different infinities. A double past float's range counts as infinite.
bool anomalous(float got, double expected) {
  const auto as_float = static_cast<float>(expected);
  if (std::isfinite(got) && std::isfinite(as_float)) return false;
  return !(std::isnan(got) && std::isnan(as_float)) && got != as_float;
}

bool find_anomalies(const Named& o, OutputVerdict& v) {
  for (std::size_t i = 0; i < o.got.size(); ++i)
    if (anomalous(o.got[i], o.expected.value[i]) && v.anomalies++ == 0) point_at(std::int64_t(i), o, v);
  if (v.anomalies == 0) return false;
  v.detail =
      fmt::format("{}: {} elements are not finite where the oracle is, or the reverse; first at [{}]: {} against {}",
                  o.name, v.anomalies, fmt::join(v.worst_coordinate, ", "), v.worst_value, v.worst_expected);
  return true;
}

void judge_elements(const Named& o, OutputVerdict& v) {
  for (std::size_t i = 0; i < o.got.size(); ++i) {
    const double error = std::fabs(o.got[i] - o.expected.value[i]);
    if (!(error >= 0) || std::isinf(error)) continue;  // matching anomalies
    const double bound = oracle::kSafety * o.expected.sigma[i] + oracle::kTiny;
    v.max_abs_error = std::max(v.max_abs_error, error);
    // A bound that is not a number judges nothing, so it fails.
    const double ratio = std::isnan(bound) ? HUGE_VAL : error == 0 ? 0.0 : error / bound;
    if (i == 0 || ratio > v.worst_ratio) {
      v.worst_ratio = ratio;
      v.bound = bound;
      point_at(std::int64_t(i), o, v);
    }
  }
}

void judge_blocks(const Named& o, OutputVerdict& v) {
  double worst = -1;
  for (std::int64_t first = 0; first < std::int64_t(o.got.size()); first += o.block) {
    double error = 0, variance = 0, fourth = 0;
    std::int64_t count = 0;
    for (std::int64_t i = first; i < first + o.block; ++i) {
      const double difference = o.got[i] - o.expected.value[i], sigma = o.expected.sigma[i];
      if (!std::isfinite(difference) || (sigma == 0 && difference == 0)) continue;  // exact elements do not dilute
      error += difference * difference;
      variance += sigma * sigma;
      fourth += std::pow(sigma, 4);
      ++count;
    }
    if (count == 0) continue;
    const double rms = std::sqrt(error / double(count));
    const double effective = fourth > 0 ? variance * variance / fourth : 1.0;
    const double bound = oracle::rms_safety(effective) * std::sqrt(variance / double(count)) + oracle::kTiny;
    if (rms / bound > worst) {
      worst = rms / bound;
      v.rms_error = rms;
      v.rms_bound = bound;
    }
  }
}

OutputVerdict judge(const Named& o) {
  SDM_REQUIRE(o.got.size() == o.expected.value.size(), "{}: {} elements against the oracle's {}", o.name, o.got.size(),
              o.expected.value.size());
  SDM_REQUIRE(o.expected.sigma.size() == o.expected.value.size(), "{}: the oracle ran without bounds", o.name);
  OutputVerdict v;
  v.name = o.name;
  if (find_anomalies(o, v)) return v;
  judge_elements(o, v);
  judge_blocks(o, v);
  v.passed = v.worst_ratio <= 1 && v.rms_error <= v.rms_bound;
  v.detail =
      fmt::format("{}: worst at [{}]: {} against {}, error {:.3g} of {:.3g} allowed; rms {:.3g} of {:.3g} allowed",
                  o.name, fmt::join(v.worst_coordinate, ", "), v.worst_value, v.worst_expected,
                  std::fabs(v.worst_value - v.worst_expected), v.bound, v.rms_error, v.rms_bound);
  return v;
}

}  // namespace

std::vector<OutputVerdict> compare(const SparseWorkload& w, const OracleResult& oracle,
                                   const ComparedOutputs& outputs) {
  const std::int64_t N = w.chunks(), C = w.chunk, D = w.head_dim, W = w.writes, R = w.reads;
  const std::int64_t G = w.gate == Gate::token ? 1 : W, step = std::int64_t{w.streams} * C;
  const Named all[] = {
      {"reading", oracle.reading, outputs.reading, step * D, {N, C, D}},
      {"final_bank", oracle.final_bank, outputs.final_bank, w.slots * D, {w.rows(), D}},
      {"d_bank", oracle.d_bank, outputs.d_bank, w.slots * D, {w.rows(), D}},
      {"d_k", oracle.d_k, outputs.d_k, step * W, {N, C, W}},
      {"d_q", oracle.d_q, outputs.d_q, step * R, {N, C, R}},
      {"d_v", oracle.d_v, outputs.d_v, step * D, {N, C, D}},
      {"d_beta", oracle.d_beta, outputs.d_beta, step, {N, C}},
      {"d_g", oracle.d_g, outputs.d_g, step * G, {N, C, G}},
  };
  std::vector<OutputVerdict> verdicts;
  for (const Named& o : all)
    if (!o.got.empty()) verdicts.push_back(judge(o));
  return verdicts;
}

}  // namespace sdm
