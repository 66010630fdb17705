// The fused mode's rules: who owns which streams, how stages are cut for a team, and what is refused.
#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "kernels/fused/team.h"
#include "pipeline/fused.h"
#include "pipeline/sparse_bind.h"
#include "run/sparse_session.h"

namespace sdm::fused {
namespace {

Device h200() {
  return {.compute_capability = 90,
          .multiprocessors = 132,
          .shared_memory_per_block = 232448,
          .shared_memory_per_multiprocessor = 233472,
          .l2_bytes = std::size_t{60} << 20};
}

TEST(FusedTeams, EveryStreamHasOneTeamAndAllCtasAreResident) {
  for (const int resident : {1, 2, 20, 108, 264})
    for (int streams = 1; streams <= 600; ++streams) {
      SCOPED_TRACE(testing::Message() << streams << " streams, " << resident << " CTAs");
      const TeamShape shape = choose_teams(streams, resident, 1000);
      EXPECT_GE(shape.ctas, 1);
      EXPECT_LE(shape.teams * shape.ctas, resident);
      EXPECT_GE(shape.teams * shape.streams, streams);
      EXPECT_LT((shape.teams - 1) * shape.streams, streams) << "a team without a stream";
      EXPECT_LE(shape.teams, streams) << "more counters than counter_bytes() holds";
    }
}

TEST(FusedTeams, FewStreamsSpreadAndManyShare) {
  const auto expect = [](int streams, int teams, int each, int ctas) {
    const TeamShape shape = choose_teams(streams, 264, 1000);
    EXPECT_EQ(shape.teams, teams) << streams;
    EXPECT_EQ(shape.streams, each) << streams;
    EXPECT_EQ(shape.ctas, ctas) << streams;
  };
  expect(1, 1, 1, 264);
  expect(8, 8, 1, 33);
  expect(32, 32, 1, 8);
  expect(128, 128, 1, 2);
  expect(256, 256, 1, 1);
  EXPECT_GT(choose_teams(300, 264, 1000).streams, 1);
  EXPECT_EQ(choose_teams(1, 264, 40).ctas, 40) << "no CTA without work";
}

/// No team's share of the GPU is more than 5 % worse than the best that any number of streams a team gives.
TEST(FusedTeams, LoadIsNearTheBest) {
  for (int streams = 1; streams <= 300; ++streams) {
    const auto load = [](const TeamShape& s) { return static_cast<double>(s.streams) / s.ctas; };
    const double chosen = load(choose_teams(streams, 264, 1000));
    for (int each = 1; each <= streams; ++each) {
      const int teams = (streams + each - 1) / each;
      if (teams > 264) continue;
      EXPECT_LE(chosen, 1.051 * load({teams, each, 264 / teams})) << streams << " streams, " << each << " a team";
    }
  }
}

Dims random_dims(std::mt19937& random) {
  const auto pick = [&](int low, int high) { return low + static_cast<int>(random() % (high - low + 1)); };
  Dims dims{.streams = pick(1, 40),
            .steps = pick(1, 3),
            .chunk = 4 * pick(1, 64),
            .writes = pick(1, 256),
            .reads = pick(1, 256),
            .head_dim = 8 * pick(1, 260),
            .slots = 4096};
  dims.tokens = (dims.steps - 1) * dims.chunk + pick(1, dims.chunk);
  return dims;
}

TEST(FusedWrite, RangesCoverAllUnitsOnce) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Dims dims = random_dims(random);
    const TeamShape team = choose_teams(dims.streams, 264, useful_ctas(dims));
    const int columns = write_columns(dims, shared_limit(h200(), kCtasPerMultiprocessor));
    const int lanes = columns / (random() % 2 == 0 ? 8 : 4);
    const WriteCut cut = cut_write(dims, team, columns, lanes);
    EXPECT_GE(cut.blocks * columns, dims.head_dim);
    EXPECT_LE(write_shared_bytes(dims, columns), shared_limit(h200(), kCtasPerMultiprocessor));
    const int units = ((dims.write_positions() + 31) / 32) << cut.unit_shift;
    EXPECT_GE(cut.ranges * cut.units_per_range, units);
    EXPECT_EQ(lanes >> cut.unit_shift, kWritePart) << "a lane group's part of a window is one batch";
  }
}

TEST(FusedWalk, TilesCoverAllPositionsWithinSharedMemory) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const Dims dims = random_dims(random);
    const TeamShape team = choose_teams(dims.streams, 264, useful_ctas(dims));
    const std::size_t limit = shared_limit(h200(), kCtasPerMultiprocessor);
    for (const int slot_bytes : {16, 24, 32}) {
      const WalkNeeds needs = undo_needs(dims, slot_bytes);
      const WalkShape shape = cut_walk(needs, team, limit);
      EXPECT_EQ(shape.warps, kWarps);
      EXPECT_EQ(shape.tile % kWalkUnit, 0);
      EXPECT_GE(shape.parts * shape.tile * kWarps, needs.valid);
      EXPECT_LE(walk_shared_bytes(shape, needs), limit);
      EXPECT_EQ(walk_shared_bytes(shape, needs), shape.shared_bytes);
    }
  }
}

class FusedRefusal : public testing::Test {
 protected:
  FusedRefusal() {
    w.streams = 8, w.tokens = 4096, w.chunk = 64, w.writes = 64, w.reads = 64, w.head_dim = 128, w.slots = 65536;
  }
  std::string forward() {
    const SparseBuffers s(w);
    return refuse(Forward{bind::gather(s), bind::mix(s), bind::write(s), nullptr}, h200());
  }
  std::string backward() {
    const SparseBuffers s(w);
    return refuse(Backward{bind::gather_grad(s), bind::mix_grad(s), bind::undo(s), bind::read_grad(s), nullptr},
                  h200());
  }
  SparseWorkload w;
};

TEST_F(FusedRefusal, TakesTheUsualShapes) {
  for (const auto snapshot :
       {SnapshotFormat::per_entry, SnapshotFormat::raw, SnapshotFormat::fp8, SnapshotFormat::int4}) {
    w.snapshot = snapshot;
    EXPECT_EQ(forward(), "");
    EXPECT_EQ(backward(), "");
  }
  w.snapshot = SnapshotFormat::none;
  EXPECT_EQ(forward(), "");
  w.snapshot = SnapshotFormat::raw;
  w.chunk = 256, w.writes = w.reads = 128, w.head_dim = 1024;
  EXPECT_EQ(forward(), "");
  EXPECT_EQ(backward(), "");
  w.bank_dtype = w.grad_dtype = DType::f32;
  for (const auto snapshot : {SnapshotFormat::per_entry, SnapshotFormat::raw, SnapshotFormat::bf16}) {
    w.snapshot = snapshot;
    EXPECT_EQ(forward(), "");
    EXPECT_EQ(backward(), "");
  }
}

TEST_F(FusedRefusal, SaysWhyInNumbers) {
  w.head_dim = 20;
  EXPECT_NE(forward().find("40 bytes; a multiple of 16"), std::string::npos) << forward();
  EXPECT_NE(backward().find("40 bytes; a multiple of 16"), std::string::npos) << backward();
  w.head_dim = 128, w.chunk = 6;
  EXPECT_NE(forward().find("6 tokens; a multiple of 4"), std::string::npos) << forward();
  w.chunk = 64, w.head_dim = 256, w.snapshot = SnapshotFormat::fp8;
  EXPECT_NE(forward().find("at most 128 columns, not 256"), std::string::npos) << forward();
  w.head_dim = 128, w.grad_dtype = DType::f32;
  EXPECT_NE(backward().find("fp8 and int4"), std::string::npos) << backward();
}

TEST_F(FusedRefusal, TheHostHasNoFusedMode) {
  w.streams = 1, w.tokens = 8, w.chunk = 4, w.writes = w.reads = 2, w.head_dim = 8, w.slots = 16;
  Parallel threads(1);
  const std::unique_ptr<Backend> host = make_host_backend();
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, *host, threads, {});
  EXPECT_THROW(session.set_launch(LaunchMode::fused), Unsupported);
  EXPECT_NO_THROW(session.set_launch(LaunchMode::automatic));
}

/// The shapes of configs/h200_perf.json, and others of results/h200/launch_rule.json.
TEST(FusedPays, WhereItWasMeasuredToWin) {
  enum Passes { neither, forward, backward, both };
  const auto pays = [](int streams, int chunk, int writes, int head_dim, DType bank) {
    SparseWorkload w;
    w.streams = streams, w.tokens = 512, w.chunk = chunk, w.writes = w.reads = writes, w.head_dim = head_dim;
    w.bank_dtype = w.grad_dtype = bank;
    const SparseBuffers buffers(w);
    return static_cast<Passes>((forward_fused_pays(buffers) ? forward : neither) |
                               (backward_fused_pays(buffers) ? backward : neither));
  };
  EXPECT_EQ(pays(8, 64, 64, 128, DType::bf16), neither);
  EXPECT_EQ(pays(8, 128, 64, 112, DType::bf16), forward);  // 1.75 MiB a step of a stream
  EXPECT_EQ(pays(8, 128, 64, 104, DType::bf16), neither);
  EXPECT_EQ(pays(8, 64, 64, 128, DType::f32), forward);
  EXPECT_EQ(pays(8, 64, 64, 1024, DType::bf16), forward);
  EXPECT_EQ(pays(8, 128, 128, 256, DType::bf16), forward);  // chunks of 64 KiB
  EXPECT_EQ(pays(8, 128, 64, 360, DType::bf16), neither);
  EXPECT_EQ(pays(8, 256, 64, 128, DType::bf16), neither);
  EXPECT_EQ(pays(8, 256, 128, 1024, DType::bf16), neither);
  // more streams than branches
  EXPECT_EQ(pays(32, 64, 64, 128, DType::bf16), both);
  EXPECT_EQ(pays(9, 64, 64, 128, DType::bf16), both);
  EXPECT_EQ(pays(16, 64, 32, 128, DType::bf16), backward);
  EXPECT_EQ(pays(32, 64, 64, 1024, DType::bf16), forward);
  EXPECT_EQ(pays(32, 64, 64, 256, DType::f32), both);  // rows of 1 KiB
  EXPECT_EQ(pays(32, 128, 64, 128, DType::bf16), forward);
  // few streams
  for (const int streams : {1, 2, 4, 7}) EXPECT_EQ(pays(streams, 64, 64, 1024, DType::bf16), neither) << streams;
}

}  // namespace
}  // namespace sdm::fused
