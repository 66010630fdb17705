// Tile bounds and launch geometry of the row walk: every group has one owner, whatever the tiling, and shared memory
// never exceeds what the device has.
#include "kernels/common/row_walk.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace sdm {
namespace {

LaunchContext h200() {
  LaunchContext context;
  context.device.multiprocessors = 132;
  context.device.shared_memory_per_block = 232448;
  context.device.shared_memory_per_multiprocessor = 233472;
  return context;
}

/// FIRST flags of `valid` positions: groups of random length, short or long.
std::vector<bool> random_firsts(std::mt19937& random, int valid) {
  std::vector<bool> first(static_cast<std::size_t>(valid));
  const unsigned longest = random() % 3 == 0 ? 100 : 3;
  for (int i = 0; i < valid; i += 1 + static_cast<int>(random() % longest)) first[static_cast<std::size_t>(i)] = true;
  return first;
}

TileBounds walk_tile(const std::vector<bool>& first, int begin, int end) {
  const int valid = static_cast<int>(first.size());
  TileBounds bounds(begin, end, valid);
  while (bounds.stop == TileBounds::kUnknown) {
    std::uint32_t starts = 0;
    for (int i = 0; i < 32 && bounds.next + i < valid; ++i)
      if (first[static_cast<std::size_t>(bounds.next + i)]) starts |= 1u << i;
    bounds.take_block(starts);
  }
  return bounds;
}

TEST(RowWalk, EveryPositionHasOneOwnerThatHoldsItsGroupWhole) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const int valid = 1 + static_cast<int>(random() % 700);
    const int tile = kWalkUnit * (1 + static_cast<int>(random() % 40));
    const std::vector<bool> first = random_firsts(random, valid);
    int covered = 0;
    for (int begin = 0; begin < valid; begin += tile) {
      const TileBounds bounds = walk_tile(first, begin, std::min(begin + tile, valid));
      if (bounds.first == bounds.stop) continue;
      ASSERT_EQ(bounds.first, covered);
      ASSERT_TRUE(first[static_cast<std::size_t>(bounds.first)]);
      ASSERT_LT(bounds.first, begin + tile);
      ASSERT_TRUE(bounds.stop == valid || first[static_cast<std::size_t>(bounds.stop)]);
      ASSERT_GE(bounds.stop, std::min(begin + tile, valid));
      covered = bounds.stop;
    }
    ASSERT_EQ(covered, valid);
  }
}

TEST(RowWalk, AnEmptyTileOwnsNothing) {
  const TileBounds bounds(64, 64, 64);
  EXPECT_EQ(bounds.first, bounds.stop);
}

TEST(RowWalk, GeometryCoversEveryPositionAndFitsTheDevice) {
  for (unsigned seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
    const int chunk = 2 + below(255);
    const WalkNeeds needs{.streams = 1 + below(64),
                          .slices = 1 + below(10),
                          .stride = 4 * (1 + below(32)),
                          .chunk = chunk,
                          .valid = (1 + below(chunk)) * (1 + below(256)),
                          .slot_bytes = 4 * (2 + below(8)),
                          .most_warps = walk_warps(below(2) == 0),
                          .group = 1 << below(3)};
    LaunchContext context;
    context.device.multiprocessors = 1 + below(200);
    context.device.shared_memory_per_block = below(2) == 0 ? 232448u : 101376u;
    context.geometry = {.tile = 32 * below(5), .warps = below(20), .depth = below(40)};
    const WalkShape shape = choose_walk(needs, context);
    ASSERT_LE(shape.shared_bytes, context.device.shared_memory_per_block);
    ASSERT_EQ(shape.shared_bytes, walk_shared_bytes(shape, needs));
    ASSERT_EQ(shape.slices % shape.group, 0);
    ASSERT_EQ(shape.warps % shape.group, 0);
    ASSERT_GE(std::int64_t{shape.parts} * shape.tiles() * shape.tile, needs.valid);
    ASSERT_EQ(shape.tile % kWalkUnit, 0);
    ASSERT_TRUE(shape.units == 1 || shape.units == 2 || shape.units == 4 || shape.units == 8);
    ASSERT_TRUE(shape.warps >= 1 && shape.warps <= needs.most_warps);
  }
}

TEST(RowWalk, DefaultShapeIsOneWaveOfAnH200) {
  const LaunchContext context = h200();
  const WalkShape shape = choose_walk(
      {.streams = 8, .slices = 1, .stride = 128, .chunk = 64, .valid = 4096, .slot_bytes = 16, .most_warps = 16},
      context);
  EXPECT_EQ(shape.parts, 16);
  EXPECT_EQ(shape.tile, 16);
  EXPECT_TRUE(shape.staged);
}

/// Tiles fill the rows in flight where half of the multiprocessors then hold the grid, and a kernel waits behind it.
TEST(RowWalk, SmallGridsLeaveRoomForTheNextKernel) {
  LaunchContext context = h200();
  context.dependent_launch = true;
  WalkNeeds needs{
      .streams = 2, .slices = 1, .stride = 128, .chunk = 64, .valid = 4096, .slot_bytes = 16, .most_warps = 16};
  EXPECT_EQ(choose_walk(needs, context).tile, 8);
  EXPECT_EQ(choose_walk(needs, context).parts, 32);
  context.dependent_launch = false;
  EXPECT_EQ(choose_walk(needs, context).tile, 4);
  context.dependent_launch = true;
  needs.streams = 1;  // half holds them as it is
  EXPECT_EQ(choose_walk(needs, context).tile, 4);
  needs.streams = 2, needs.valid = 8192;  // full as it is
  EXPECT_EQ(choose_walk(needs, context).tile, 8);
  EXPECT_EQ(choose_walk(needs, context).parts, 66);
  needs.valid = 4096, context.geometry.tile = 4;
  EXPECT_EQ(choose_walk(needs, context).tile, 4);
}

/// Eight slices of bf16 rows, `flag64`.
WalkNeeds wide_rows() {
  return {.streams = 8,
          .slices = 8,
          .stride = 128,
          .chunk = 64,
          .valid = 4096,
          .slot_bytes = 16,
          .most_warps = 16,
          .pieces_fit = true};
}

/// Pieces where token rows of a long chunk leave L1 less than the rows in flight, and only where they fit.
TEST(RowWalk, RowsComeInPiecesWhereSharedMemoryLeavesL1Little) {
  const LaunchContext context = h200();
  WalkNeeds needs = wide_rows();
  needs.chunk = 256, needs.valid = 32768;
  EXPECT_TRUE(choose_walk(needs, context).pieces);
  needs.pieces_fit = false;
  EXPECT_FALSE(choose_walk(needs, context).pieces);
  needs.pieces_fit = true, needs.chunk = 64, needs.valid = 4096;
  EXPECT_FALSE(choose_walk(needs, context).pieces);
  EXPECT_TRUE(made_of_pieces(1024, 128));
  EXPECT_FALSE(made_of_pieces(1024, 124));
  EXPECT_FALSE(made_of_pieces(1020, 128));
}

/// Pairs of slices where the token rows of two fit beside all rows in flight: `wide960`, not `flagship`.
TEST(RowWalk, SlicesComeInPairsWhereTheirTokenRowsFit) {
  const LaunchContext context = h200();
  WalkNeeds needs = wide_rows();
  needs.streams = 4, needs.stride = 120, needs.group = 4, needs.pairs_fit = true;
  const WalkShape shape = choose_walk(needs, context);
  EXPECT_TRUE(shape.pairs);
  EXPECT_FALSE(shape.pieces);
  EXPECT_EQ(shape.slice_groups(), 4);
  EXPECT_EQ(shape.stride, 240);
  EXPECT_LE(shape.shared_bytes, context.device.shared_memory_per_block);
  needs.pairs_fit = false;
  EXPECT_FALSE(choose_walk(needs, context).pairs);
  needs.pairs_fit = true, needs.chunk = 256, needs.valid = 32768;
  EXPECT_FALSE(choose_walk(needs, context).pairs);
  EXPECT_TRUE(made_of_pairs(960, 120));
  EXPECT_FALSE(made_of_pairs(1000, 128));
  EXPECT_FALSE(made_of_pairs(360, 120));
}

/// Two waves of pairs (`flag64`), short tiles of pieces in many waves (`flagship`), both for undo alone.
TEST(RowWalk, UndoTakesShorterTiles) {
  LaunchContext context = h200();
  WalkNeeds needs = wide_rows();
  needs.pairs_fit = true;
  EXPECT_EQ(choose_walk(needs, context).tile, 64);
  needs.short_tiles = true;
  EXPECT_EQ(choose_walk(needs, context).tile, 32);
  EXPECT_EQ(choose_walk(needs, context).parts, 8);
  needs.chunk = 256, needs.valid = 32768;
  EXPECT_EQ(choose_walk(needs, context).tile, 48);
  EXPECT_EQ(choose_walk(needs, context).parts, 43);
  needs.pieces_fit = needs.pairs_fit = false;
  EXPECT_EQ(choose_walk(needs, context).tile, 128);
  needs.pieces_fit = true, needs.streams = 1;  // one wave
  EXPECT_EQ(choose_walk(needs, context).tile, 128);
  needs.streams = 8, context.geometry.tile = 96;
  EXPECT_EQ(choose_walk(needs, context).tile, 96);
}

}  // namespace
}  // namespace sdm
