#include "oracle/rounding.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sdm::oracle {

namespace {

constexpr int kMinExponent = -126;  // of normal binary32 and bfloat16 values

/// Rounds to a multiple of 2^quantum, ties to even.
double to_multiple(double x, int quantum) { return std::ldexp(std::nearbyint(std::ldexp(x, -quantum)), quantum); }

double round_bf16(double x) {
  if (!std::isfinite(x) || x == 0) return x;
  if (std::fabs(x) < 0x1p-126) return to_multiple(x, kMinExponent - 7);
  constexpr int kDropped = 52 - 7;
  auto bits = std::bit_cast<std::uint64_t>(x);
  const std::uint64_t odd = (bits >> kDropped) & 1;
  bits += (std::uint64_t{1} << (kDropped - 1)) - 1 + odd;
  bits &= ~((std::uint64_t{1} << kDropped) - 1);
  const double rounded = std::bit_cast<double>(bits);
  return std::fabs(rounded) < 0x1p128 ? rounded : std::copysign(HUGE_VAL, x);
}

}  // namespace

double round_to(double x, DType dtype) {
  return dtype == DType::bf16 ? round_bf16(x) : static_cast<double>(static_cast<float>(x));
}

double spacing(double x, DType dtype) {
  const int stored_bits = dtype == DType::bf16 ? 7 : 23;
  const double floor = std::ldexp(1.0, kMinExponent - stored_bits);
  // The power of two at or below |x|, by clearing the fraction: much cheaper than ilogb in the rounding loops.
  const auto exponent = std::bit_cast<std::uint64_t>(std::fabs(x)) & 0x7ff0000000000000u;
  return std::max(floor, std::bit_cast<double>(exponent) * (dtype == DType::bf16 ? 0x1p-7 : 0x1p-23));
}

double round_e4m3(double x) {
  if (std::isnan(x) || x == 0) return x;
  const double size = std::min(std::fabs(x), 448.0);
  const int exponent = std::max(std::ilogb(size), -6);
  return std::copysign(std::min(to_multiple(size, exponent - 3), 448.0), x);
}

double round_int4(double x) { return std::clamp(std::nearbyint(x), -8.0, 7.0); }

float quantized_scale(std::span<const double> row, SnapshotFormat format) {
  float amax = 0;
  for (double x : row) amax = std::max(amax, static_cast<float>(std::fabs(x)));
  return std::max(amax / (format == SnapshotFormat::fp8 ? 448.0f : 7.0f), 1e-12f);
}

void snapshot_round_trip(std::span<double> row, SnapshotFormat format, DType bank_dtype) {
  if (format == SnapshotFormat::per_entry || format == SnapshotFormat::raw) return;
  if (format == SnapshotFormat::bf16) {
    for (double& x : row) x = round_to(x, DType::bf16);
    return;
  }
  const float scale = quantized_scale(row, format);
  for (double& x : row) {
    const float scaled = static_cast<float>(x) / scale;
    const double payload = format == SnapshotFormat::fp8 ? round_e4m3(scaled) : round_int4(scaled);
    x = round_to(static_cast<float>(payload) * scale, bank_dtype);
  }
}

}  // namespace sdm::oracle
