// exp_rn over the floats of [-104, 88]. The largest error over every float of the range is 0.93 ulp; a sweep of all
// 2.2e9 takes most of a minute on two cores and runs with SDM_EXHAUSTIVE=1, else every 61st float is taken.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <mutex>

#include "base/parallel.h"
#include "numerics/fp.h"

namespace sdm {
namespace {

constexpr double kMaxUlp = 0.94;
constexpr std::uint32_t kSign = 0x80000000u;

/// Distance to e^x in units of the float spacing at e^x (2^-149 among subnormals). The double exp is off by less than
/// 1e-8 of that unit.
double error_in_ulp(float x) {
  const double exact = std::exp(static_cast<double>(x));
  const int exponent = std::max(std::ilogb(exact), -126);
  return std::fabs(static_cast<double>(exp_rn(x)) - exact) * std::ldexp(1.0, 23 - exponent);
}

struct Worst {
  double ulp = 0;
  std::uint32_t bits = 0;
};

/// Over the floats with bits first, first + stride, ... up to `last`.
Worst worst_between(std::uint32_t first, std::uint32_t last, std::uint32_t stride) {
  Parallel threads;
  std::mutex mutex;
  Worst worst;
  threads.for_ranges((last - first) / stride + 1, 1 << 20, [&](std::int64_t begin, std::int64_t end) {
    Worst mine;
    for (std::int64_t i = begin; i < end; ++i) {
      const std::uint32_t bits = first + static_cast<std::uint32_t>(i) * stride;
      const double ulp = error_in_ulp(float_of(bits));
      if (!(ulp <= mine.ulp)) mine = {ulp, bits};
    }
    const std::lock_guard lock(mutex);
    if (!(mine.ulp <= worst.ulp)) worst = mine;
  });
  return worst;
}

TEST(Exp, WithinOneUlpOverTheRange) {
  const char* exhaustive = std::getenv("SDM_EXHAUSTIVE");
  const std::uint32_t stride = exhaustive && *exhaustive == '1' ? 1 : 61;
  for (const auto& [first, last] : {std::pair{0u, bits_of(88.0f)}, std::pair{kSign, bits_of(-104.0f)}}) {
    const Worst worst = worst_between(first, last, stride);
    RecordProperty("worst_ulp", std::to_string(worst.ulp));
    EXPECT_LT(worst.ulp, kMaxUlp) << "at x = " << float_of(worst.bits);
    EXPECT_GT(worst.ulp, 0.5) << "a correctly rounded result would be news: the error measure is broken";
  }
}

TEST(Exp, ExactWhereItMustBe) {
  EXPECT_EQ(bits_of(exp_rn(0.0f)), bits_of(1.0f));
  EXPECT_EQ(bits_of(exp_rn(-0.0f)), bits_of(1.0f));
  for (const float below : {-104.00001f, -105.0f, -1e30f, -std::numeric_limits<float>::infinity()})
    EXPECT_EQ(bits_of(exp_rn(below)), 0u) << below;
  EXPECT_EQ(exp_rn(89.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(exp_rn(std::numeric_limits<float>::infinity()), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(exp_rn(std::numeric_limits<float>::quiet_NaN())));
}

TEST(Exp, NeverFallsWhereXRises) {
  // Decays must not grow when gates fall. Neighbouring floats of [-1, 0], where gates live.
  float last = exp_rn(-1.0f);
  for (std::uint32_t bits = bits_of(-1.0f); bits > bits_of(-0.5f); --bits) {
    const float now = exp_rn(float_of(bits));
    ASSERT_GE(now, last) << float_of(bits);
    last = now;
  }
}

}  // namespace
}  // namespace sdm
