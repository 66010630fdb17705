// Launch mode fused on a GPU: the bits of the stages' own launches, for every form of the kernels and for team shapes
// from many CTAs a stream to many streams a CTA; and again when it is replayed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "session_on_gpu.h"

namespace sdm {
namespace {

std::vector<SparseWorkload> workloads() {
  std::vector<SparseWorkload> all;
  for (const auto snapshot :
       {SnapshotFormat::per_entry, SnapshotFormat::raw, SnapshotFormat::fp8, SnapshotFormat::int4}) {
    all.push_back(workload(2, 50, 16, 8, 64, 128));
    all.push_back(workload(3, 90, 32, 24, 128, 512));
    all[all.size() - 1].snapshot = all[all.size() - 2].snapshot = snapshot;
  }
  for (const auto snapshot : {SnapshotFormat::per_entry, SnapshotFormat::raw, SnapshotFormat::bf16}) {
    all.push_back(workload(2, 70, 32, 16, 100, 256));
    all.back().bank_dtype = all.back().grad_dtype = DType::f32;
    all.back().snapshot = snapshot;
  }
  all.push_back(workload(2, 70, 32, 16, 128, 256));
  all.back().grad_dtype = DType::f32;
  all.push_back(workload(1, 300, 256, 64, 512, 2048));  // many CTAs a stream, several column blocks
  all.push_back(workload(300, 40, 8, 8, 64, 64));       // several streams a team
  all.push_back(workload(5, 60, 12, 16, 200, 64));
  all.back().index_dtype = DType::i64;
  return all;
}

class FusedOnGpu : public SessionOnGpu {};

TEST_F(FusedOnGpu, HasTheBitsOfTheStagesAndRepeatsThem) {
  for (const SparseWorkload& w : workloads()) {
    SCOPED_TRACE(fmt::format("P {} T {} C {} W {} D {} {}", w.streams, w.tokens, w.chunk, w.writes, w.head_dim,
                             name_of(w.snapshot)));
    const SparseInputs inputs = generate_inputs(w, threads);
    SparseSession session(w, inputs, *backend, threads, {});
    session.set_launch(LaunchMode::eager);
    const StepDigests expected = run_step(session);
    session.set_launch(LaunchMode::fused);
    EXPECT_EQ(session.launch_name().rfind("fused", 0), 0u) << session.launch_name();
    for (int run = 0; run < 3; ++run) EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
    session.set_geometry({.warps = 1});
    EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
  }
}

/// wide960's rows: the forward as one kernel, the backward as the stages' own.
TEST_F(FusedOnGpu, AutomaticTakesEitherPassByItself) {
  const SparseWorkload w = workload(4, 128, 64, 64, 960, 2048);
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, *backend, threads, {});
  session.set_launch(LaunchMode::eager);
  const StepDigests expected = run_step(session);
  session.set_launch(LaunchMode::automatic);
  const std::string name = session.launch_name();
  EXPECT_EQ(name.rfind("fused: forward ", 0), 0u) << name;
  EXPECT_NE(name.find("; backward a graph"), std::string::npos) << name;
  for (int run = 0; run < 2; ++run) EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
}

TEST_F(FusedOnGpu, RefusesWithAReason) {
  const SparseWorkload w = workload(2, 50, 16, 8, 30, 128);
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, *backend, threads, {});
  EXPECT_THROW(session.set_launch(LaunchMode::fused), Unsupported);
}

}  // namespace
}  // namespace sdm
