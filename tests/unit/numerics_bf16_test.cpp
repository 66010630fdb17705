#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "numerics/formats.h"

namespace sdm {
namespace {

/// The number that a bf16 magnitude stands for; the code of infinity stands for 2^128, the next step after the largest
/// finite number, which is how rounding sees it.
double magnitude_of(std::uint32_t code) {
  const int exponent = static_cast<int>(code >> 7);
  const double mantissa = code & 0x7fu;
  return exponent == 0 ? std::ldexp(mantissa, -133) : std::ldexp(128.0 + mantissa, exponent - 134);
}

/// Nearest by distance, ties to the even code: the definition, without bit tricks.
std::uint16_t nearest_bf16(float x) {
  if (std::isnan(x)) return 0x7fff;
  const std::uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isinf(x)) return sign | 0x7f80;
  const std::uint32_t below = bits_of(std::fabs(x)) >> 16;
  const double down = std::fabs(static_cast<double>(x)) - magnitude_of(below);
  const double up = magnitude_of(below + 1) - std::fabs(static_cast<double>(x));
  const bool take_upper = up < down || (up == down && (below & 1u));
  return static_cast<std::uint16_t>(sign | (below + (take_upper ? 1 : 0)));
}

TEST(Bf16, EveryCodeSurvivesTheRoundTrip) {
  for (std::uint32_t code = 0; code < 0x10000u; ++code) {
    const bf16_t stored{static_cast<std::uint16_t>(code)};
    const float x = from_bf16(stored);
    ASSERT_EQ(bits_of(x), code << 16) << "code " << code;
    const std::uint32_t expected = std::isnan(x) ? 0x7fffu : code;
    ASSERT_EQ(to_bf16(x).bits, expected) << "code " << code;
  }
}

TEST(Bf16, FloatsRoundToNearestEven) {
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 251) {
    const float x = float_of(static_cast<std::uint32_t>(bits));
    ASSERT_EQ(to_bf16(x).bits, nearest_bf16(x)) << "bits " << bits;
  }
}

TEST(Bf16, EveryHalfwayCaseAndItsNeighbours) {
  for (std::uint32_t code = 0; code < 0x10000u; ++code)
    for (const std::uint32_t low : {0x7fffu, 0x8000u, 0x8001u}) {
      const float x = float_of((code << 16) | low);
      ASSERT_EQ(to_bf16(x).bits, nearest_bf16(x)) << "bits " << ((code << 16) | low);
    }
}

TEST(Bf16, StoredNansAreTheOneNan) {
  for (const std::uint32_t bits : {0x7f800001u, 0xff800001u, 0xffffffffu, 0x7fc00000u}) {
    EXPECT_EQ(to_bf16(float_of(bits)).bits, 0x7fffu);
    EXPECT_EQ(bits_of(store_element<float>(float_of(bits))), 0x7fffffffu);
  }
  EXPECT_EQ(bits_of(store_element<float>(-0.0f)), 0x80000000u);
}

}  // namespace
}  // namespace sdm
