#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "numerics/formats.h"

namespace sdm {
namespace {

constexpr std::uint32_t kCodes = 127;  // magnitudes 0x00 .. 0x7e; 0x7f is NaN

/// 1-4-3 with bias 7 (OCP 8-bit floating point, E4M3), by its definition.
double magnitude_of(std::uint32_t code) {
  const int exponent = static_cast<int>(code >> 3);
  const double mantissa = code & 7u;
  return exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8.0 + mantissa, exponent - 10);
}

std::array<double, kCodes> magnitudes() {
  std::array<double, kCodes> table{};
  for (std::uint32_t code = 0; code < kCodes; ++code) table[code] = magnitude_of(code);
  return table;
}

/// Nearest of all codes by distance, ties to the even code, above the largest the largest.
std::uint8_t nearest_e4m3(float x, const std::array<double, kCodes>& table) {
  if (std::isnan(x)) return 0x7f;
  const auto sign = static_cast<std::uint8_t>(std::signbit(x) ? 0x80 : 0);
  const double wanted = std::fabs(static_cast<double>(x));
  const auto above = std::upper_bound(table.begin(), table.end(), wanted);
  auto code = static_cast<std::uint32_t>(above - table.begin()) - 1;
  if (code + 1 < kCodes) {
    const double down = wanted - table[code], up = table[code + 1] - wanted;
    if (up < down || (up == down && (code & 1u))) ++code;
  }
  return static_cast<std::uint8_t>(sign | code);
}

TEST(Fp8, EveryCodeDecodesByItsDefinition) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    const float x = from_e4m3(static_cast<std::uint8_t>(code));
    if ((code & 0x7fu) == 0x7fu) {
      EXPECT_TRUE(std::isnan(x)) << "code " << code;
      EXPECT_EQ(to_e4m3(x), 0x7f) << "code " << code;
      continue;
    }
    EXPECT_EQ(std::fabs(static_cast<double>(x)), magnitude_of(code & 0x7fu)) << "code " << code;
    EXPECT_EQ(std::signbit(x), code >= 128) << "code " << code;
    EXPECT_EQ(to_e4m3(x), code);
  }
}

TEST(Fp8, EveryMidpointAndItsNeighbours) {
  const auto table = magnitudes();
  for (std::uint32_t code = 0; code + 1 < kCodes; ++code) {
    const auto middle = static_cast<float>((table[code] + table[code + 1]) / 2);
    for (const float x : {std::nextafter(middle, 0.0f), middle, std::nextafter(middle, 1e9f)}) {
      EXPECT_EQ(to_e4m3(x), nearest_e4m3(x, table)) << "above code " << code;
      EXPECT_EQ(to_e4m3(-x), nearest_e4m3(-x, table)) << "above code " << code;
    }
  }
}

TEST(Fp8, FloatsRoundToNearestEven) {
  const auto table = magnitudes();
  for (std::uint64_t bits = 0; bits < (std::uint64_t{1} << 32); bits += 509) {
    const float x = float_of(static_cast<std::uint32_t>(bits));
    ASSERT_EQ(to_e4m3(x), nearest_e4m3(x, table)) << "bits " << bits;
  }
}

TEST(Fp8, Saturates) {
  for (const float x : {448.0f, 449.0f, 464.0f, 480.0f, 1e30f, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(to_e4m3(x), 0x7e) << x;
    EXPECT_EQ(to_e4m3(-x), 0xfe) << x;
  }
}

TEST(Fp8, RowScaleIsAnIeeeDivisionWithAFloor) {
  EXPECT_EQ(row_scale(448.0f, kFp8Limit), 1.0f);
  EXPECT_EQ(row_scale(1.0f, kFp8Limit), 1.0f / 448.0f);
  EXPECT_EQ(row_scale(0.0f, kFp8Limit), 1e-12f);
  EXPECT_EQ(row_scale(3.0f, kInt4Limit), 3.0f / 7.0f);
}

}  // namespace
}  // namespace sdm
