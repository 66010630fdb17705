// Walks every thread of gather's and gather_grad's plans: each part of each column slice has one row group, whole in a
// warp; the parts of a unit share a CTA; every column of a total has one writer.
#include "kernels/common/row_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "kernels/gather/gather.h"
#include "kernels/gather_grad/gather_grad.h"

namespace sdm {
namespace {

Dims dims_of(int streams, int chunk, int tokens, int head_dim) {
  Dims dims;
  dims.streams = streams, dims.chunk = chunk, dims.tokens = tokens, dims.head_dim = head_dim;
  dims.steps = (tokens + chunk - 1) / chunk;
  dims.writes = dims.reads = 16, dims.slots = 1024;
  return dims;
}

constexpr std::int32_t kWidths[] = {1, 4, 20, 30, 64, 120, 128, 131, 132, 192, 200, 256, 384, 960, 1024};

void expect_owned_once(const Dims& dims, int step, const RowPlan& plan) {
  const auto tokens = static_cast<std::size_t>(dims.streams * dims.chunk);
  const auto slices = static_cast<std::size_t>(plan.slices), groups = static_cast<std::size_t>(plan.groups());
  const auto lanes = static_cast<std::size_t>(plan.lanes());
  std::vector<int> folds(tokens * slices * groups * lanes);  // [token, slice, part, lane]: times folded
  std::vector<int> ctas(tokens * slices, -1);                // [token, slice]: where
  for (int cta = 0; cta < plan.ctas(); ++cta)
    for (int thread = 0; thread < plan.threads; ++thread) {
      const RowPlace at = place_of(plan, cta, thread);
      ASSERT_EQ(at.lane, thread % plan.lanes());
      ASSERT_LT(at.unit_in_cta, plan.units_per_cta());
      if (!at.owned) continue;
      ASSERT_EQ(at.valid, at.token % dims.chunk < dims.valid_tokens(step));
      const std::size_t unit = static_cast<std::size_t>(at.token) * slices + static_cast<std::size_t>(at.slice);
      ASSERT_LT(unit, ctas.size());
      ASSERT_TRUE(ctas[unit] == -1 || ctas[unit] == cta);
      ctas[unit] = cta;
      for (int part = at.part; part < plan.groups(); part += plan.parallel())
        ++folds[(unit * groups + static_cast<std::size_t>(part)) * lanes + static_cast<std::size_t>(at.lane)];
    }
  EXPECT_EQ(std::count(folds.begin(), folds.end(), 1), static_cast<std::ptrdiff_t>(folds.size()));
}

TEST(RowPlan, EveryPartHasOneRowGroup) {
  for (const std::int32_t width : kWidths)
    for (const DType row : {DType::bf16, DType::f32})
      for (const int groups : {1, 2, 8, 32})
        for (const int warps : {0, 1, 3, 8})
          for (const auto& [entries, lanes] : {std::pair{1, 32}, {400, 32}, {1, kNarrowLanes}, {400, kNarrowLanes}}) {
            SCOPED_TRACE(testing::Message() << "D " << width << ", " << name_of(row) << ", groups " << groups
                                            << ", warps " << warps << ", entries " << entries << ", lanes " << lanes);
            const Dims dims = dims_of(3, 5, 8, width);
            const RowPlan plan = make_row_plan(dims, row, 1, groups, entries, warps, lanes);
            EXPECT_TRUE(!plan.slice_major || plan.vec == 1 || plan.lanes() <= lanes);
            EXPECT_EQ(plan.slice_major, entries > 1 && plan.slices > 1);
            EXPECT_EQ(plan.threads % 32, 0);
            EXPECT_LE(plan.threads, kMaxRowThreads);
            EXPECT_EQ(plan.threads % plan.unit_threads(), 0);
            EXPECT_LE(plan.shared_bytes(), 48u * 1024);  // no opt-in needed on any GPU
            expect_owned_once(dims, 1, plan);
          }
}

TEST(RowPlan, PartsComeFromShapesAlone) {
  Dims dims = dims_of(1, 256, 4096, 1024);
  dims.writes = dims.reads = 128, dims.slots = 65536;
  for (const int streams : {1, 8, 500}) {
    dims.streams = streams;
    EXPECT_EQ(gather::groups_for(dims, DType::bf16), 4) << "rows of several slices return: more threads a slice";
    EXPECT_EQ(gather_grad::groups_for(dims, DType::bf16), 1);
  }
  dims.slots = 1 << 20;
  EXPECT_EQ(gather::groups_for(dims, DType::bf16), 1) << "rows do not return";
}

TEST(RowPlan, SlicesCoverTheRowAndAreTheDotPlanes) {
  for (const std::int32_t width : kWidths)
    for (const DType row : {DType::bf16, DType::f32}) {
      SCOPED_TRACE(testing::Message() << "D " << width << ", " << name_of(row));
      const RowCut cut = cut_row(width, row);
      const gather_grad::DotShape dots = gather_grad::dot_shape(width, row);
      EXPECT_EQ(cut.vec, dots.vec);
      EXPECT_EQ(cut.lanes, dots.lanes);
      EXPECT_EQ(cut.slices, dots.planes);
      EXPECT_GE(cut.slices * cut.lanes * cut.vec, width);
      EXPECT_LT((cut.slices - 1) * cut.lanes * cut.vec, width);
      EXPECT_EQ(width % cut.vec, 0);
    }
}

TEST(RowPlan, SwizzleIsAPermutationWithoutConflicts) {
  for (const int quads : {8, 16, 32, 64}) {
    std::set<int> places;
    for (int q = 0; q < quads; ++q) {
      EXPECT_LT(swizzled(q), quads);
      places.insert(swizzled(q));
    }
    EXPECT_EQ(places.size(), static_cast<std::size_t>(quads));
  }
  // 8 threads move 8 quads at a time, one for each of the 8 bank groups: lanes' own quads (every second), then totals.
  for (int first = 0; first < 64; first += 16)
    for (const int odd : {0, 1}) {
      std::set<int> banks;
      for (int lane = 0; lane < 8; ++lane) banks.insert(swizzled(first + 2 * lane + odd) % 8);
      EXPECT_EQ(banks.size(), 8u);
    }
  for (int first = 0; first < 64; first += 8) {
    std::set<int> banks;
    for (int q = first; q < first + 8; ++q) banks.insert(swizzled(q) % 8);
    EXPECT_EQ(banks.size(), 8u);
  }
}

TEST(RowPlan, RowsThatWriteReadsAgainStayInL2WhereTheyFit) {
  constexpr std::size_t kL2 = 60 << 20;
  Dims dims = dims_of(4, 64, 4096, 960);
  dims.writes = 64;  // 30 MiB a step
  EXPECT_EQ(gather_stays(dims, DType::bf16, false, false, kL2).writes, Stay::usual);
  EXPECT_EQ(gather_stays(dims, DType::bf16, false, false, kL2).reads, Stay::leave);
  EXPECT_EQ(gather_stays(dims, DType::bf16, true, false, kL2).writes, Stay::last);
  EXPECT_EQ(gather_stays(dims, DType::bf16, true, false, kL2).reads, Stay::usual);
  EXPECT_EQ(gather_stays(dims, DType::f32, false, false, kL2).writes, Stay::quarter) << "twice as much does not fit";
  EXPECT_EQ(gather_stays(dims, DType::f32, false, true, kL2).writes, Stay::leave);
  EXPECT_EQ(gather_stays(dims, DType::bf16, false, true, kL2).writes, Stay::usual);
  EXPECT_EQ(gather_stays(dims, DType::bf16, false, false, kL2 / 2).writes, Stay::quarter);
  dims.streams = 1 << 20;
  EXPECT_EQ(gather_stays(dims, DType::bf16, false, false, kL2).writes, Stay::quarter) << "counted in 64 bits";
}

TEST(RowPlan, RefusesWhatItCannotCount) {
  const Dims dims = dims_of(8, 64, 4096, 128);
  EXPECT_EQ(refuse_row_plan(dims, 32, 64), "");
  EXPECT_NE(refuse_row_plan(dims, 3, 64).find("groups is 3"), std::string::npos);
  EXPECT_NE(refuse_row_plan(dims, 64, 64), "");
  Dims huge = dims;
  huge.streams = 1 << 16;
  EXPECT_NE(refuse_row_plan(huge, 1, 1024), "");
}

}  // namespace
}  // namespace sdm
