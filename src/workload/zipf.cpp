#include "workload/zipf.h"

#include <algorithm>
#include <bit>

namespace sdm {
namespace {

constexpr int kDrawBits = 62;
constexpr int kGuideBits = 14;
constexpr int kExactLog2 = 11;  // x < 2^11 has a bucket of its own

// log2 of a positive normal number. With x = m*2^e, m in [3/4, 3/2): ln m = 2*atanh(z), z = (m-1)/(m+1), |z| <= 1/5;
// the series stops at z^23.
double portable_log2(double x) {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & 0x000fffffffffffffULL) | 0x3ff0000000000000ULL);
  if (mantissa >= 1.5) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double z = (mantissa - 1) / (mantissa + 1);
  const double z2 = z * z;
  double series = 0;
  for (int n = 23; n >= 1; n -= 2) series = series * z2 + 1.0 / n;
  constexpr double kTwoOverLn2 = 2.8853900817779268;
  return exponent + kTwoOverLn2 * (z * series);
}

// 2^-y for y >= 0: the nearest integer goes to the exponent, the rest to the Taylor series of exp.
double portable_exp2_of_minus(double y) {
  if (y >= 1022) return 0;
  const int whole = static_cast<int>(y + 0.5);
  constexpr double kLn2 = 0.69314718055994531;
  const double f = (whole - y) * kLn2;
  double series = 1;
  for (int n = 16; n >= 1; --n) series = 1 + series * (f / n);
  return series * std::bit_cast<double>(static_cast<std::uint64_t>(1023 - whole) << 52);
}

}  // namespace

double inverse_power(double x, double s) { return portable_exp2_of_minus(s * portable_log2(x)); }

ZipfTable::ZipfTable(std::uint32_t ranks, double s) {
  std::vector<double> cumulative;
  double total = 0;
  for (std::uint64_t x = 1; x <= ranks;) {  // x = rank + 1
    const std::uint64_t octave_step = std::bit_floor(x) >> kExactLog2;
    const std::uint64_t width = std::min(std::max<std::uint64_t>(1, octave_step), ranks - x + 1);
    const auto n = static_cast<double>(width);
    total += n * inverse_power(static_cast<double>(x) + (n - 1) / 2, s);
    cumulative.push_back(total);
    buckets_.push_back({0, static_cast<std::uint32_t>(x - 1), static_cast<std::uint32_t>(width)});
    x += width;
  }
  // Division and scaling by a power of two are monotone, so the thresholds are.
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    buckets_[i].end = static_cast<std::uint64_t>(cumulative[i] / total * 0x1p62);
  }
  buckets_.back().end = std::uint64_t{1} << kDrawBits;

  guide_.resize(std::size_t{1} << kGuideBits);
  std::uint32_t bucket = 0;
  for (std::uint64_t top = 0; top < guide_.size(); ++top) {
    while (buckets_[bucket].end <= top << (kDrawBits - kGuideBits)) ++bucket;
    guide_[top] = bucket;
  }
}

std::uint32_t ZipfTable::draw(RandomSequence& random) const {
  const std::uint64_t high = random.next();
  const std::uint64_t point = (high << 32 | random.next()) >> (64 - kDrawBits);
  std::uint32_t bucket = guide_[point >> (kDrawBits - kGuideBits)];
  while (buckets_[bucket].end <= point) ++bucket;
  return buckets_[bucket].first + random.below(buckets_[bucket].width);
}

}  // namespace sdm
