// The walk's cut into lane groups (kernels/common/group_span.h) and the division by a row's scale (write/quotient.h),
// both the very functions that the kernels run.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/common/group_span.h"
#include "kernels/write/quotient.h"

namespace sdm {
namespace {

using device::Span;

struct Chunk {
  std::vector<bool> first, last;
  std::vector<int> ordinal;  // of the position's group
};

Chunk random_chunk(std::mt19937& rng, int valid, double repeat) {
  Chunk chunk{std::vector<bool>(valid), std::vector<bool>(valid), std::vector<int>(valid)};
  std::bernoulli_distribution again(repeat);
  for (int i = 0, group = -1; i < valid; ++i) {
    chunk.first[i] = i == 0 || !again(rng);
    if (chunk.first[i]) ++group;
    chunk.ordinal[i] = group;
  }
  for (int i = 0; i < valid; ++i) chunk.last[i] = i + 1 == valid || chunk.first[i + 1];
  return chunk;
}

unsigned bits(const std::vector<bool>& flags, int w) {
  unsigned mask = 0;
  for (int i = 32 * w; i < 32 * (w + 1) && i < static_cast<int>(flags.size()); ++i)
    mask |= static_cast<unsigned>(flags[i]) << (i - 32 * w);
  return mask;
}

/// Walks every part of every window as the kernels do and counts the visits of every position; checks ordinals and that
/// a group is walked whole, in order.
void walk_parts(const Chunk& chunk, int part, std::vector<int>& visits) {
  const int valid = static_cast<int>(chunk.first.size());
  for (int w = 0; 32 * w < valid; ++w)
    for (int begin = 0; begin < 32; begin += part) {
      int at = w, before = 0;
      for (int i = 0; i < 32 * w; ++i) before += chunk.first[i];
      unsigned first = bits(chunk.first, at), last = bits(chunk.last, at);
      Span span = device::owned_span(first, last, std::min(32, valid - 32 * at), begin, begin + part);
      bool inside = false;
      while (true) {
        for (int i = span.begin; i < span.end; ++i) {
          const int position = 32 * at + i;
          ASSERT_LT(position, valid);
          ASSERT_EQ(chunk.first[position], !inside);
          inside = !chunk.last[position];
          ++visits[position];
          ASSERT_EQ(before + __builtin_popcount(first & device::bits_below(i + 1)) - 1, chunk.ordinal[position]);
        }
        ASSERT_EQ(span.open, inside);
        if (!span.open) break;
        before += __builtin_popcount(first);
        ++at;
        first = bits(chunk.first, at), last = bits(chunk.last, at);
        span = device::continued_span(last, std::min(32, valid - 32 * at));
      }
    }
}

TEST(WriteWalk, EveryGroupHasOneOwner) {
  const unsigned seed = 20240611;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (const double repeat : {0.0, 0.05, 0.5, 0.9, 0.99, 1.0})
    for (const int valid : {1, 2, 31, 32, 33, 64, 95, 200, 321})
      for (const int part : {8, 16, 32})
        for (int trial = 0; trial < 8; ++trial) {
          const Chunk chunk = random_chunk(rng, valid, repeat);
          std::vector<int> visits(valid);
          walk_parts(chunk, part, visits);
          for (int i = 0; i < valid; ++i) ASSERT_EQ(visits[i], 1) << "position " << i << " of " << valid;
        }
}

std::uint32_t next(std::mt19937& rng) { return static_cast<std::uint32_t>(rng()); }

void expect_same_codes(float x, float amax) {
  const write::RowScale fp8 = write::make_row_scale(amax, kFp8Limit), int4 = write::make_row_scale(amax, kInt4Limit);
  const float q = write::quotient(x, fp8);
  ASSERT_EQ(int{to_e4m3(q)}, int{to_e4m3(x / fp8.scale)}) << x << " / " << fp8.scale;
  if (std::fabs(x / fp8.scale) >= 0x1p-11f) {
    ASSERT_EQ(bits_of(q), bits_of(x / fp8.scale)) << x << " / " << fp8.scale;
  }
  ASSERT_EQ(write::int4_bits(write::quotient(x, int4)), static_cast<unsigned>(to_int4(x / int4.scale)) & 0xfu)
      << x << " / " << int4.scale;
}

TEST(WriteQuotient, EveryBf16AgainstManyScales) {
  const unsigned seed = 7;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (int trial = 0; trial < 60; ++trial) {
    const std::uint32_t limit = trial < 2 ? 0x7f80u * static_cast<unsigned>(trial) : next(rng) % 0x7f80u;
    const float amax = from_bf16({static_cast<std::uint16_t>(limit)});
    for (std::uint32_t code = 0; code < 0x10000u; ++code)
      if ((code & 0x7fffu) <= limit || (code & 0x7fffu) > 0x7f80u)
        expect_same_codes(from_bf16({static_cast<std::uint16_t>(code)}), amax);
  }
}

TEST(WriteQuotient, FloatsNearAndFarFromTheLargest) {
  const unsigned seed = 99;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (int trial = 0; trial < 2'000'000; ++trial) {
    const float amax = float_of(next(rng) % 0x7f800000u);
    const std::uint32_t magnitude =
        bits_of(amax) - std::min<std::uint32_t>(bits_of(amax), next(rng) >> (1 + next(rng) % 30));
    expect_same_codes(float_of(magnitude | (next(rng) & 0x80000000u)), amax);
  }
}

TEST(WriteQuotient, RowsWithInfinitiesAndZeros) {
  const float inf = float_of(0x7f800000u);
  for (const float x : {0.0f, -0.0f, 1.0f, -3e38f, inf, -inf, float_of(0x7fffffffu)}) expect_same_codes(x, inf);
  for (const float x : {0.0f, -0.0f, 0x1p-149f, -0x1p-140f}) expect_same_codes(x, 0x1p-140f);
}

}  // namespace
}  // namespace sdm
