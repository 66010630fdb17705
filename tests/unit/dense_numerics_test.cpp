#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "numerics/exp2.h"
#include "numerics/f16.h"
#include "oracle/dense.h"

namespace sdm {
namespace {

TEST(Exp2, IsWithinOneUlpOverEveryStep) {
  double worst = 0;
  for (float x = -126.0f; x < 127.0f; x += 0.000732f) {
    const double exact = std::exp2(double{x}), got = exp2_rn(x);
    worst = std::max(worst, std::abs(got - exact) / std::ldexp(1.0, std::ilogb(exact) - 23));
  }
  EXPECT_LE(worst, 1.0);
}

TEST(Exp2, IsExactAtIntegersAndDefinedAtTheEnds) {
  for (int n = -149; n <= 127; ++n) EXPECT_EQ(exp2_rn(static_cast<float>(n)), std::ldexp(1.0f, n)) << n;
  EXPECT_EQ(exp2_rn(-151.0f), 0.0f);
  EXPECT_EQ(exp2_rn(-1e30f), 0.0f);
  EXPECT_TRUE(std::isinf(exp2_rn(128.5f)) && std::isinf(exp2_rn(1e30f)));
  EXPECT_TRUE(std::isnan(exp2_rn(std::numeric_limits<float>::quiet_NaN())));
}

TEST(F16, EveryPatternSurvivesARoundTrip) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const f16_t x{static_cast<std::uint16_t>(bits)};
    const bool is_nan = (bits & 0x7fff) > 0x7c00;
    EXPECT_EQ(to_f16(from_f16(x)).bits, is_nan ? 0x7fff : bits);
  }
}

TEST(F16, RoundsToNearestEvenAsTheOracleDoes) {
  for (std::uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double low = from_f16({static_cast<std::uint16_t>(bits)}), step = oracle::io_spacing(low, DType::f16);
    for (const double share : {0.25, 0.5, 0.75}) {
      const auto x = static_cast<float>(low + share * step);
      EXPECT_EQ(double{from_f16(to_f16(x))}, oracle::round_to_io(x, DType::f16)) << x;
      EXPECT_EQ(double{from_f16(to_f16(-x))}, oracle::round_to_io(-x, DType::f16)) << -x;
    }
  }
}

TEST(Bf16, TheOracleRoundsAsTheFormatDoes) {
  for (std::uint32_t bits = 0; bits < 0x7f800000u; bits += 0x3fff) {
    const float x = float_of(bits);
    EXPECT_EQ(double{from_bf16(to_bf16(x))}, oracle::round_to_io(x, DType::bf16)) << x;
  }
}

}  // namespace
}  // namespace sdm
