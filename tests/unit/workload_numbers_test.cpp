#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "workload/bank_value.h"
#include "workload/sparse.h"
#include "workload/zipf.h"

// The numbers under a workload: the generator, the Zipf table, the banks.

namespace sdm {
namespace {

SparseWorkload bank_of_900() {
  SparseWorkload w;
  w.streams = 3;
  w.slots = 50;
  w.head_dim = 6;
  w.seed = 0x123456789abcdefULL;
  return w;
}

TEST(Rng, PhiloxKnownAnswers) {
  // The vectors published with Random123 (kat_vectors, philox4x32 10). The purpose is the last counter word.
  const auto words = [](std::uint64_t seed, std::uint32_t purpose, std::uint32_t x, std::uint32_t y, std::uint32_t z) {
    const RandomBlock block = random_block(seed, static_cast<Purpose>(purpose), x, y, z);
    return std::vector<std::uint32_t>(block.word, block.word + 4);
  };
  EXPECT_EQ(words(0, 0, 0, 0, 0), (std::vector{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  EXPECT_EQ(words(~0ULL, ~0u, ~0u, ~0u, ~0u), (std::vector{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
  EXPECT_EQ(words(0x299f31d0a4093822ULL, 0x03707344u, 0x243f6a88u, 0x85a308d3u, 0x13198a2eu),
            (std::vector{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u}));
}

TEST(Rng, ScalingIsExactAtTheEnds) {
  EXPECT_EQ(signed_unit(0x80000000u), -1.0f);
  EXPECT_EQ(signed_unit(0x7fffffffu), 1.0f - 0x1p-23f);
  EXPECT_EQ(signed_unit(0), 0.0f);
  EXPECT_EQ(unit(0), 0.0f);
  EXPECT_EQ(unit(~0u), 1.0f - 0x1p-24f);
  constexpr std::uint32_t kMost = 0x7fffffffu;
  EXPECT_EQ(scale_below(~0u, ~0u, kMost), kMost - 1);
  EXPECT_EQ(scale_below(0, ~0u, kMost), 0u);
  EXPECT_EQ(scale_below(~0u, ~0u, 1), 0u);
  EXPECT_EQ(scale_below(0x80000000u, 0, 10), 5u);
  EXPECT_EQ(scale_below(0x7fffffffu, ~0u, 10), 4u);
}

TEST(Zipf, InversePowerAgreesWithPow) {
  for (const double s : {0.1, 1.0, 1.1, 2.5, 7.0}) {
    for (double x = 1; x < 2147483648.0; x = x * 1.37 + 0.5) {
      const double expected = std::pow(x, -s);
      if (expected < 1e-300) continue;
      EXPECT_NEAR(inverse_power(x, s) / expected, 1.0, 1e-13) << x << "^-" << s;
    }
  }
  EXPECT_EQ(inverse_power(1, 3), 1.0);
  EXPECT_EQ(inverse_power(2, 3), 0.125);
  EXPECT_EQ(inverse_power(1e9, 64), 0.0);
}

TEST(Zipf, FrequenciesFollowTheLaw) {
  constexpr std::uint32_t kRanks = 100000;
  constexpr int kDraws = 1000000;
  constexpr double kS = 0.9;
  const ZipfTable table(kRanks, kS);
  RandomSequence random(5, Purpose::write_slots, 0, 0);
  std::vector<int> count(kRanks);
  for (int i = 0; i < kDraws; ++i) ++count.at(table.draw(random));
  EXPECT_NEAR(static_cast<double>(count[0]) / count[9], std::pow(10.0, kS), 0.25);

  double total = 0;
  for (std::uint32_t x = 1; x <= kRanks; ++x) total += std::pow(x, -kS);
  for (const auto& [from, to] : std::vector<std::pair<int, int>>{
           {0, 1}, {9, 10}, {1000, 2047}, {2047, 2048}, {4096, 9000}, {50001, 70001}, {99990, 100000}}) {
    double expected = 0;
    std::int64_t observed = 0;
    for (int r = from; r < to; ++r) {
      expected += kDraws * std::pow(r + 1, -kS) / total;
      observed += count[static_cast<std::size_t>(r)];
    }
    EXPECT_NEAR(static_cast<double>(observed), expected, 5 * std::sqrt(expected) + 1) << from << ".." << to;
  }
}

TEST(Zipf, EdgesOfTheTable) {
  RandomSequence random(1, Purpose::write_slots, 0, 0);
  EXPECT_EQ(ZipfTable(1, 1.1).draw(random), 0u);
  const ZipfTable steep(1000, 64);  // the weights of all but a few ranks vanish
  for (int i = 0; i < 100; ++i) EXPECT_LT(steep.draw(random), 3u);
  const ZipfTable wide(0x7fffffffu, 0.01);
  std::uint32_t largest = 0;
  for (int i = 0; i < 2000; ++i) largest = std::max(largest, wide.draw(random));
  EXPECT_GT(largest, 0x70000000u);
  EXPECT_LT(largest, 0x7fffffffu);
}

TEST(Bank, PartsAndDtypesAgreeWithThePureFunction) {
  Parallel threads(2);
  SparseWorkload w = bank_of_900();
  for (const auto& [first, count] :
       std::vector<std::pair<int, int>>{{0, 900}, {1, 2}, {3, 13}, {4, 7}, {899, 1}, {5, 0}}) {
    std::vector<bf16_t> narrow(static_cast<std::size_t>(count));
    std::vector<float> wide(narrow.size());
    w.bank_dtype = DType::bf16;
    fill_bank(w, {}, BankKind::memory, first, count, narrow.data(), threads);
    w.bank_dtype = DType::f32;
    fill_bank(w, {}, BankKind::memory, first, count, wide.data(), threads);
    for (int i = 0; i < count; ++i) {
      const auto e = static_cast<std::uint64_t>(first + i);
      EXPECT_EQ(wide[std::size_t(i)], bank_value(w.seed, Purpose::memory_bank, e));
      EXPECT_EQ(narrow[std::size_t(i)], bank_value_bf16(w.seed, Purpose::memory_bank, e));
      EXPECT_LE(std::abs(wide[std::size_t(i)] - float_of_bf16(narrow[std::size_t(i)].bits)), 0x1p-9f);
    }
  }
  EXPECT_THROW(fill_bank(w, {}, BankKind::memory, 899, 2, nullptr, threads), InternalError);
}

TEST(Bank, RoundsHalvesToEven) {
  EXPECT_EQ(bf16_bits_of_finite(1.0f + 0x1p-8f), 0x3f80);  // half way: down to even
  EXPECT_EQ(bf16_bits_of_finite(1.0f + 0x3p-8f), 0x3f82);  // half way: up to even
  EXPECT_EQ(bf16_bits_of_finite(1.0f + 0x1p-8f + 0x1p-23f), 0x3f81);
  EXPECT_EQ(bf16_bits_of_finite(-(1.0f - 0x1p-23f)), 0xbf80);
}

TEST(Bank, GradientIsZeroRandomOrCaptured) {
  Parallel threads(2);
  SparseWorkload w = bank_of_900();
  SparseInputs in;
  std::vector<bf16_t> grad(static_cast<std::size_t>(w.bank_elements()), bf16_t{0xffff});
  const auto fill = [&] { fill_bank(w, in, BankKind::gradient, 0, w.bank_elements(), grad.data(), threads); };
  fill();
  EXPECT_EQ(std::count(grad.begin(), grad.end(), bf16_t{0}), w.bank_elements());
  w.final_bank_gradient = true;
  fill();
  EXPECT_EQ(grad[17], bank_value_bf16(w.seed, Purpose::gradient_bank, 17));
  EXPECT_NE(grad[17], bank_value_bf16(w.seed, Purpose::memory_bank, 17));
  in.d_final_bank.assign(grad.size(), 2.5f);
  in.d_final_bank[5] = -3.0f;
  fill_bank(w, in, BankKind::gradient, 5, 2, grad.data(), threads);
  EXPECT_EQ(float_of_bf16(grad[0].bits), -3.0f);
  EXPECT_EQ(float_of_bf16(grad[1].bits), 2.5f);
}

}  // namespace
}  // namespace sdm
