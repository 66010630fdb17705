// Launch mode plan on a GPU: the bits of eager launches, from passes of one step to passes whose steps share graphs;
// and again when they are replayed, and after a change of geometry.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "session_on_gpu.h"

namespace sdm {
namespace {

class PlanOnGpu : public SessionOnGpu {};

TEST_F(PlanOnGpu, HasTheBitsOfEagerLaunchesAndRepeatsThem) {
  std::vector<SparseWorkload> all = {workload(2, 30, 32, 8, 64, 128), workload(3, 90, 32, 24, 128, 512),
                                     workload(2, 70, 32, 16, 100, 256), workload(1, 2000, 4, 4, 64, 64)};
  all[2].bank_dtype = all[2].grad_dtype = DType::f32;
  all.push_back(all[1]);
  all.back().snapshot = SnapshotFormat::none;
  for (const SparseWorkload& w : all) {
    SCOPED_TRACE(fmt::format("P {} T {} C {} W {} D {} {}", w.streams, w.tokens, w.chunk, w.writes, w.head_dim,
                             name_of(w.snapshot)));
    const SparseInputs inputs = generate_inputs(w, threads);
    SparseSession session(w, inputs, *backend, threads, {});
    session.set_launch(LaunchMode::eager);
    const StepDigests expected = run_step(session);
    session.set_launch(LaunchMode::plan);
    EXPECT_EQ(session.launch_name(), "plan");
    for (int run = 0; run < 3; ++run) EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
    session.set_geometry({.tile = 64, .warps = 2, .depth = 8});
    EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
  }
}

}  // namespace
}  // namespace sdm
