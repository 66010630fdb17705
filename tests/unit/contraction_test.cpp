// Notices a build that fuses a*b + c by itself (-ffp-contract=fast, -ffast-math): every expression must round twice.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "numerics/fp.h"

namespace sdm {
namespace {

constexpr unsigned kSeed = 20250;
constexpr std::size_t kCount = 4096;

struct Operands {
  std::vector<float> a, b, c;
};

/// c nearly cancels a*b, so the rounding of the product is most of the sum.
Operands operands() {
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<float> value(1.0f, 2.0f);
  Operands out;
  for (std::size_t i = 0; i < kCount; ++i) {
    out.a.push_back(value(random));
    out.b.push_back(value(random));
    out.c.push_back(-out.a[i] * out.b[i]);
  }
  return out;
}

/// Two roundings, independent of how float expressions are compiled: the product of two floats is exact in double, and
/// a sum of two floats rounds to float the same with or without double in between.
float twice_rounded(float a, float b, float c) {
  const auto product = static_cast<float>(static_cast<double>(a) * static_cast<double>(b));
  return static_cast<float>(static_cast<double>(product) + static_cast<double>(c));
}

TEST(Contraction, ProductsAndSumsRoundOnTheirOwn) {
  const Operands in = operands();
  std::vector<float> sum(kCount), difference(kCount), reversed(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    sum[i] = in.a[i] * in.b[i] + in.c[i];
    difference[i] = in.a[i] * in.b[i] - (-in.c[i]);
    reversed[i] = -in.c[i] - in.a[i] * in.b[i];
  }
  int would_differ = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    const float expected = twice_rounded(in.a[i], in.b[i], in.c[i]);
    ASSERT_EQ(sum[i], expected) << "element " << i << " of seed " << kSeed;
    ASSERT_EQ(difference[i], expected) << "element " << i << " of seed " << kSeed;
    ASSERT_EQ(reversed[i], -expected) << "element " << i << " of seed " << kSeed;
    would_differ += std::fma(in.a[i], in.b[i], in.c[i]) != expected;
  }
  EXPECT_GT(would_differ, static_cast<int>(kCount) / 2) << "the operands cannot tell fused from plain";
}

TEST(Contraction, SumsOfProductsKeepTheirOrder) {
  const Operands in = operands();
  constexpr std::size_t kTerms = 16;
  int would_differ = 0;
  for (std::size_t first = 0; first < kCount; first += kTerms) {
    float plain = 0, expected = 0, fused = 0;
    for (std::size_t i = first; i < first + kTerms; ++i) plain += in.a[i] * in.b[i];
    for (std::size_t i = first; i < first + kTerms; ++i) expected = twice_rounded(in.a[i], in.b[i], expected);
    for (std::size_t i = first; i < first + kTerms; ++i) fused = fma_rn(in.a[i], in.b[i], fused);
    ASSERT_EQ(bits_of(plain), bits_of(expected))
        << "the compiler fused or reordered the sum from " << first << " of seed " << kSeed;
    would_differ += fused != expected;
  }
  EXPECT_GT(would_differ, static_cast<int>(kCount / kTerms) / 4) << "the operands cannot tell fused from plain";
}

TEST(Contraction, FusedIsOneRounding) {
  const Operands in = operands();
  for (std::size_t i = 0; i < kCount; ++i)
    ASSERT_EQ(fma_rn(in.a[i], in.b[i], in.c[i]), std::fma(in.a[i], in.b[i], in.c[i])) << "element " << i;
}

TEST(Contraction, SubnormalsAreKept) {
  std::array<float, 2> smallest = {float_of(1), float_of(0x00800000u)};
  for (float& x : smallest) x *= 0.5f;
  EXPECT_EQ(bits_of(smallest[0]), 0u) << "half of the smallest subnormal is a tie and goes to even";
  EXPECT_EQ(bits_of(smallest[1]), 0x00400000u);
}

}  // namespace
}  // namespace sdm
