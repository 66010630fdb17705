// The walk's cut into lane groups (kernels/common/group_span.h) and the division by a row's scale (write/quotient.h),
// both the very functions that the kernels run.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
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

TEST(WriteWalk, PartsListTheGroupsThatBeginInThem) {
  const unsigned seed = 20261130;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 rng(seed);
  for (const double repeat : {0.0, 0.05, 0.5, 0.99})
    for (const int valid : {1, 8, 31, 32, 33, 95, 321})
      for (const int part : {2, 8, 32}) {
        const Chunk chunk = random_chunk(rng, valid, repeat);
        int listed = 0;
        for (int w = 0; 32 * w < valid; ++w) {
          const int before_window = listed;
          for (int begin = 0; begin < 32; begin += part) {
            const device::PartGroups groups = device::part_groups(bits(chunk.first, w), before_window, begin, part);
            ASSERT_EQ(groups.before, listed);
            for (int j = 0; j < part; ++j) {
              const int position = 32 * w + begin + j;
              ASSERT_EQ(((groups.firsts >> j) & 1u) != 0, position < valid && chunk.first[position]);
              if (((groups.firsts >> j) & 1u) != 0) {
                ASSERT_EQ(chunk.ordinal[position], listed++);
              }
            }
          }
        }
        ASSERT_EQ(listed, chunk.ordinal[valid - 1] + 1);
      }
}

std::uint32_t next(std::mt19937& rng) { return static_cast<std::uint32_t>(rng()); }

/// The codes of quotient `q` must be those of the exact one.
void expect_codes_of(float x, float q, float exact, bool fp8) {
  if (fp8)
    ASSERT_EQ(int{to_e4m3(q)}, int{to_e4m3(exact)}) << std::hexfloat << x << " gives " << q << ", exact " << exact;
  else
    ASSERT_EQ(write::int4_bits(q), static_cast<unsigned>(to_int4(exact)) & 0xfu)
        << std::hexfloat << x << " gives " << q << ", exact " << exact;
}

void expect_same_codes(float x, float amax) {
  for (const bool fp8 : {true, false}) {
    const write::RowScale row = write::make_row_scale(amax, fp8 ? kFp8Limit : kInt4Limit);
    const float exact = x / row.scale, q = write::quotient(x, row);
    expect_codes_of(x, q, exact, fp8);
    if (std::fabs(exact) >= 0x1p-11f) {
      ASSERT_EQ(bits_of(q), bits_of(exact)) << x << " / " << row.scale;
    }
    if (!std::isfinite(x) || !write::quick_scale(row.scale)) continue;
    const float quick = write::quick_quotient(x, write::make_reciprocal(row.scale));
    expect_codes_of(x, quick, exact, fp8);
    ASSERT_EQ(std::signbit(quick), std::signbit(x)) << x << " / " << row.scale;
  }
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

/// x near b * scale for every midpoint b of the format, the only places where a quotient that is slightly off could
/// change a code; among the scales many just within what quick_scale takes.
void expect_same_codes_near_midpoints(bool fp8, std::uint32_t seed) {
  std::mt19937 rng(seed);
  for (int trial = 0; trial < 400'000; ++trial) {
    const std::uint32_t multiple = (127u << 23) + (next(rng) % 8u << 20);  // 1 <= scale < 2
    const std::uint32_t off = 64u + (next(rng) >> (12 + next(rng) % 20));
    const std::uint32_t side = next(rng) % 3u;
    const float scale = float_of(side == 0 ? multiple : (side == 1 ? multiple + off : multiple + (1u << 20) - off));
    if (!write::quick_scale(scale)) continue;
    const std::uint32_t code = next(rng) % 126u;
    const float b =
        fp8 ? 0.5f * (from_e4m3(static_cast<std::uint8_t>(code)) + from_e4m3(static_cast<std::uint8_t>(code + 1)))
            : static_cast<float>(code % 7u) + 0.5f;
    const float x = float_of(bits_of(b * scale) + next(rng) % 5u - 2u);
    expect_codes_of(x, write::quick_quotient(x, write::make_reciprocal(scale)), x / scale, fp8);
  }
}

TEST(WriteQuotient, QuickQuotientsNearMidpoints) {
  const std::uint32_t seed = 4242;
  SCOPED_TRACE("seed " + std::to_string(seed));
  for (const bool fp8 : {true, false}) expect_same_codes_near_midpoints(fp8, seed);
}

TEST(WriteQuotient, AnExcludedScaleWouldGiveAnotherCode) {
  const float x = 0x1.6bfffcp-6f, scale = 0x1.bffffap+0f;
  EXPECT_FALSE(write::quick_scale(scale));
  EXPECT_NE(to_e4m3(write::quick_quotient(x, write::make_reciprocal(scale))), to_e4m3(x / scale));
}

TEST(WriteQuotient, QuickRowScaleOfEveryMagnitude) {
  const std::uint32_t stride = std::getenv("SDM_EXHAUSTIVE") != nullptr ? 1u : 977u;
  for (const float limit : {kFp8Limit, kInt4Limit})
    for (std::uint64_t bits = 0; bits <= 0x7f800000u; bits += bits < 0x7f7ffc00u ? stride : 1u) {
      const float amax = float_of(static_cast<std::uint32_t>(bits));
      ASSERT_EQ(bits_of(write::quick_row_scale(amax, limit)), bits_of(row_scale(amax, limit))) << std::hexfloat << amax;
    }
}

TEST(WriteQuotient, RowsWithInfinitiesAndZeros) {
  const float inf = float_of(0x7f800000u);
  for (const float x : {0.0f, -0.0f, 1.0f, -3e38f, inf, -inf, float_of(0x7fffffffu)}) expect_same_codes(x, inf);
  for (const float x : {0.0f, -0.0f, 0x1p-149f, -0x1p-140f}) expect_same_codes(x, 0x1p-140f);
}

}  // namespace
}  // namespace sdm
