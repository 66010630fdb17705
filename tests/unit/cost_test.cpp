// The bytes and operations that roofs are held against, counted by hand for one small workload.
#include "pipeline/cost.h"

#include <gtest/gtest.h>

#include "kernels/registry.h"

namespace sdm {
namespace {

class Cost : public testing::Test {
 protected:
  // Six chunks of four tokens (two streams); rows of 16 bytes; a [N, C, D] array 768 bytes, the lower triangles of a
  // [N, C, C] array 6 * 10 floats = 240 bytes.
  Cost() {
    w.streams = 2, w.tokens = 12, w.chunk = 4, w.writes = 3, w.reads = 2, w.head_dim = 8, w.slots = 60;
    facts.write_entries = 72, facts.read_entries = 48;
    facts.write_groups = 50, facts.read_groups = 40, facts.touched_rows = 80;
  }
  double bytes(std::string_view stage) const { return stage_cost(stage, SparseBuffers(w), facts).bytes; }
  double flops(std::string_view stage) const { return stage_cost(stage, SparseBuffers(w), facts).flops; }
  SparseWorkload w;
  WorkloadFacts facts;
};

TEST_F(Cost, RowStagesCountUniqueRowsOnce) {
  EXPECT_EQ(bytes("gather"), 80 * 16 + (72 + 48) * (4 + 4) + 2 * 768);
  EXPECT_EQ(bytes("write"), 2 * 50 * 16 + 50 * 16 + 72 * 16 + 768);
  EXPECT_EQ(bytes("gather_grad"), 50 * 16 + 72 * (4 + 4 + 4) + 2 * 768);
  EXPECT_EQ(bytes("undo"), 50 * (2 * 16 + 16 + 16) + 72 * (16 + 4 + 4) + 768);
  EXPECT_EQ(bytes("read_grad"), 40 * (2 * 16 + 16) + 48 * (16 + 4 + 4) + 768);
  EXPECT_EQ(flops("gather"), 2 * (72 + 48) * 8);
  EXPECT_EQ(flops("gather_grad"), 2 * 2 * 72 * 8);
}

TEST_F(Cost, WhatIsSavedCountsByItsFormat) {
  const double raw = bytes("write");
  w.snapshot = SnapshotFormat::none;
  EXPECT_EQ(bytes("write"), raw - 50 * 16);
  w.snapshot = SnapshotFormat::fp8;
  EXPECT_EQ(bytes("write"), raw - 50 * 16 + 50 * (8 + 4));
  w.snapshot = SnapshotFormat::int4;
  EXPECT_EQ(bytes("write"), raw - 50 * 16 + 50 * (4 + 4));
}

TEST_F(Cost, TriangularArraysCountUpToTheirDiagonals) {
  EXPECT_EQ(bytes("interactions"), (72 + 48) * (4 + 4 + 4 + 4) + 2 * 240);
  EXPECT_EQ(bytes("solve"), 2 * 240);
  EXPECT_EQ(bytes("combine"), 4 * 240 + 3 * 768);
  EXPECT_EQ(bytes("mix"), 2 * 240 + 6 * 768);
  EXPECT_EQ(bytes("combine_grad"), 2 * 240 + 3 * 768);
  EXPECT_EQ(bytes("mix_grad"), 240 + 3 * 768);
  EXPECT_EQ(flops("mix_grad"), 6 * 2 * 10 * 8);  // a multiply-add for each of ten cells and eight columns
}

TEST_F(Cost, EveryStageHasOne) {
  registry().each_sparse([&](const auto& stage) {
    if (stage.name == "reduce") return;  // nothing to do where one plane is the result
    EXPECT_GT(bytes(stage.name), 0) << stage.name;
  });
  EXPECT_EQ(bytes("reduce"), 0);
  w.head_dim = 1032;  // nine slices of undo and read_grad, five of gather_grad
  EXPECT_EQ(bytes("reduce"), 4 * (72 * (2 * (9 + 1) + 5 + 1) + 48 * (9 + 1)));
}

}  // namespace
}  // namespace sdm
