// Recorded passes on a GPU after their tensors moved and in other geometries: the same bits, and for new
// addresses no new instantiation.
#include <gtest/gtest.h>

#include "session_on_gpu.h"

namespace sdm {
namespace {

class RecordingOnGpu : public SessionOnGpu {};

TEST_F(RecordingOnGpu, IsUpdatedInPlaceForNewAddresses) {
  std::vector<SparseWorkload> all = {workload(3, 90, 32, 24, 128, 512), workload(2, 70, 64, 16, 1024, 256)};
  all.push_back(all[0]);
  all.back().snapshot = SnapshotFormat::fp8;
  for (const SparseWorkload& w : all) {
    const SparseInputs inputs = generate_inputs(w, threads);
    SparseSession session(w, inputs, *backend, threads, {});
    session.set_launch(LaunchMode::eager);
    const StepDigests expected = run_step(session);
    for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::automatic, LaunchMode::plan, LaunchMode::fused}) {
      session.set_launch(mode);
      SCOPED_TRACE(session.launch_name());
      run_step(session);
      const SparseSession::Updates before = session.updates();
      session.relocate();
      for (int run = 0; run < 2; ++run) EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
      EXPECT_GE(session.updates().in_place, before.in_place + 2);
      EXPECT_EQ(session.updates().anew, before.anew);
    }
  }
}

TEST_F(RecordingOnGpu, KeepsTheBitsInOtherGeometries) {
  const SparseWorkload w = workload(2, 120, 64, 24, 256, 512);
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, *backend, threads, {});
  session.set_launch(LaunchMode::automatic);
  const StepDigests expected = run_step(session);
  for (const Geometry& geometry : {Geometry{.tile = 64}, {.tile = 128, .warps = 2}, {.depth = 8}, {}}) {
    session.set_geometry(geometry);
    EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
  }
}

}  // namespace
}  // namespace sdm
