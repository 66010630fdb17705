// Launch mode fused on a GPU: the bits of the stages' own launches, for every form of the kernels and for team shapes
// from many CTAs a stream to many streams a CTA; and again when it is replayed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

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

/// flag64's rows, where the forward is one kernel and the backward runs in branches, and 16 streams of short steps,
/// where it is the other way round.
TEST_F(FusedOnGpu, AutomaticTakesEitherPassByItself) {
  const std::pair<SparseWorkload, std::string> cases[] = {
      {workload(8, 128, 64, 64, 1024, 2048), "fused: forward 8 teams.*; backward a graph.* in 8 branches"},
      {workload(16, 128, 64, 32, 128, 2048), "fused: forward a graph.* in 8 branches; backward 16 teams.*"}};
  for (const auto& [w, name] : cases) {
    SCOPED_TRACE(name);
    const SparseInputs inputs = generate_inputs(w, threads);
    SparseSession session(w, inputs, *backend, threads, {});
    session.set_launch(LaunchMode::eager);
    const StepDigests expected = run_step(session);
    session.set_launch(LaunchMode::automatic);
    EXPECT_TRUE(std::regex_match(session.launch_name(), std::regex(name))) << session.launch_name();
    for (int run = 0; run < 2; ++run) EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
  }
}

TEST_F(FusedOnGpu, RefusesWithAReason) {
  const SparseWorkload w = workload(2, 50, 16, 8, 30, 128);
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, *backend, threads, {});
  EXPECT_THROW(session.set_launch(LaunchMode::fused), Unsupported);
}

}  // namespace
}  // namespace sdm
