// The reduction orders of spec 2.6 against naive descriptions of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "numerics/order.h"

namespace sdm {
namespace {

constexpr unsigned kSeed = 77;

/// Distances 1, 2, 4, ..: a sum of neighbours, of neighbouring sums, and so on.
float neighbours_first(const float* x, int count) {
  return count == 1 ? x[0] : neighbours_first(x, count / 2) + neighbours_first(x + count / 2, count / 2);
}

/// Distances 16, 8, ..: the last addition joins even and odd lanes, the one before lanes of equal index modulo 4, ..
float halves_first(const float* x, int step) {
  return step == kLanes ? x[0] : halves_first(x, 2 * step) + halves_first(x + step, 2 * step);
}

float ascending(const float* x) {
  float sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += x[lane];
  return sum;
}

TEST(LaneTree, AddsInTheOrderOfTheSpecification) {
  std::mt19937 random(kSeed);
  std::normal_distribution<float> normal;
  int trees_differ = 0, differs_from_fold = 0;
  for (int round = 0; round < 1000; ++round) {
    float lanes[kLanes], near[kLanes], far[kLanes];
    for (float& x : lanes) x = normal(random);
    std::copy_n(lanes, kLanes, near);
    std::copy_n(lanes, kLanes, far);
    const float near_sum = tree_sum_near_first(near), far_sum = tree_sum_far_first(far);
    ASSERT_EQ(bits_of(near_sum), bits_of(neighbours_first(lanes, kLanes))) << "seed " << kSeed << " round " << round;
    ASSERT_EQ(bits_of(far_sum), bits_of(halves_first(lanes, 1))) << "seed " << kSeed << " round " << round;
    trees_differ += near_sum != far_sum;
    differs_from_fold += near_sum != ascending(lanes);
  }
  EXPECT_GT(trees_differ, 100) << "the numbers cannot tell the two trees apart";
  EXPECT_GT(differs_from_fold, 100) << "the numbers cannot tell a tree from a fold";
}

/// Slices follow each other without gap or overlap and cover the row.
template <typename Slice>
void expect_cover(int head_dim, Slice&& slice) {
  int at = 0;
  for (int i = 0; i < slice_count(head_dim); ++i) {
    const ColumnSlice columns = slice(head_dim, i);
    ASSERT_EQ(columns.begin, at) << "slice " << i << " of a row of " << head_dim;
    ASSERT_LE(columns.width(), 128) << "slice " << i << " of a row of " << head_dim;
    ASSERT_GE(columns.width(), 0) << "slice " << i << " of a row of " << head_dim;
    at = columns.end;
  }
  ASSERT_EQ(at, head_dim);
}

TEST(Slices, CoverEveryWidth) {
  for (int d = 1; d <= 4096; ++d) {
    expect_cover(d, row_slice);
    expect_cover(d, undo_slice);
  }
}

TEST(Slices, WidthsOfTheSpecification) {
  for (int d = 1; d <= 4096; ++d) {
    const int count = (d + 127) / 128;
    const bool equal = d % (4 * count) == 0;
    ASSERT_EQ(row_slice_width(d), equal ? d / count : 128) << d;
    ASSERT_EQ(undo_slice_width(d) % 4, 0) << d;
  }
  EXPECT_EQ(row_slice_width(192), 96);
  EXPECT_EQ(row_slice_width(960), 120);
  EXPECT_EQ(row_slice_width(200), 100);
  EXPECT_EQ(row_slice_width(132), 128);  // 66 is no multiple of 4
  EXPECT_EQ(row_slice_width(131), 128);
  EXPECT_EQ(undo_slice_width(132), 68);
  EXPECT_EQ(undo_slice_width(131), 68);
  EXPECT_EQ(undo_slice_width(30), 32);
}

}  // namespace
}  // namespace sdm
