// The sweep of shared functions over every input: it names one wrong result among many.
#include <gtest/gtest.h>

#include "check/numerics.h"

namespace sdm {
namespace {

/// The host's own results, but one bit of one input's.
class OneWrong final : public SweepSide {
 public:
  OneWrong(sweep::Function function, std::uint32_t input) : function_(function), input_(input) {}

  std::vector<std::uint64_t> sums(sweep::Function f, std::uint32_t blocks) override {
    std::vector<std::uint64_t> all(blocks);
    for (std::uint32_t block = 0; block < blocks; ++block)
      each(f, block, [&](std::uint32_t input, std::uint32_t output) { all[block] += sweep::term(input, output); });
    return all;
  }
  std::vector<std::uint32_t> outputs(sweep::Function f, std::uint32_t block) override {
    std::vector<std::uint32_t> all;
    each(f, block, [&](std::uint32_t, std::uint32_t output) { all.push_back(output); });
    return all;
  }

 private:
  template <typename Visit>
  void each(sweep::Function f, std::uint32_t block, Visit&& visit) const {
    using sweep::Function;
    const std::uint32_t first = block * sweep::kBlock;
    for (std::uint32_t i = 0; i < sweep::kBlock; i += sweep::is_dot(f) ? 32 : 1) {
      const std::uint32_t input = first + i;
      std::uint32_t output = 0;
      if (f == Function::to_bf16) output = to_bf16(float_of(input)).bits;
      if (f == Function::exp) output = sweep::canonical_bits(exp_rn(float_of(input)));
      if (f == Function::far_dot) {
        float partial[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) partial[lane] = sweep::lane_partial(input / 32, lane);
        output = sweep::canonical_bits(tree_sum_far_first(partial));
      }
      visit(input, f == function_ && input == input_ ? output ^ 1u : output);
    }
  }

  sweep::Function function_;
  std::uint32_t input_;
};

constexpr std::uint32_t kNowhere = 0xffffffffu;

TEST(NumericsSweep, EqualSidesAreEqual) {
  Parallel threads(2);
  OneWrong honest(sweep::Function::to_bf16, kNowhere);
  for (const sweep::Function f : {sweep::Function::to_bf16, sweep::Function::exp, sweep::Function::far_dot}) {
    const SweepVerdict verdict = sweep_function(f, 2, honest, threads);
    EXPECT_EQ(verdict.difference, "");
    EXPECT_EQ(verdict.inputs, 2u << 20);
  }
}

TEST(NumericsSweep, OneWrongBitIsNamed) {
  Parallel threads(2);
  for (const sweep::Function f : {sweep::Function::to_bf16, sweep::Function::exp, sweep::Function::far_dot}) {
    OneWrong side(f, 0x00123460u);
    const SweepVerdict verdict = sweep_function(f, 2, side, threads);
    EXPECT_NE(verdict.difference.find("of input 0x00123460"), std::string::npos) << verdict.difference;
  }
}

TEST(NumericsSweep, TermsTellResultsOfOneInputApart) {
  for (std::uint32_t input = 0; input < 1000; ++input)
    for (std::uint32_t bit = 0; bit < 32; ++bit) EXPECT_NE(sweep::term(input, 7), sweep::term(input, 7u ^ (1u << bit)));
}

TEST(NumericsSweep, JoinedBitsShowEachElement) {
  const float four[4] = {1.0f, -0.0f, 448.0f, float_of(0x7fffffffu)};
  for (int changed = 0; changed < 4; ++changed)
    for (std::uint32_t bit = 0; bit < 32; ++bit) {
      float other[4] = {four[0], four[1], four[2], four[3]};
      other[changed] = float_of(bits_of(four[changed]) ^ (1u << bit));
      if (other[changed] != other[changed] && four[changed] != four[changed])
        continue;  // one NaN is as good as another
      EXPECT_NE(sweep::joined_bits(four), sweep::joined_bits(other)) << changed << " " << bit;
    }
}

}  // namespace
}  // namespace sdm
