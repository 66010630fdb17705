// Launch mode plan on a pretended device: what is recorded, what is replayed, and what an observer sees.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "check/check.h"
#include "pretend_device.h"

namespace sdm::test {
namespace {

/// Counts recordings.
class CountingDevice final : public PretendDevice {
 public:
  std::unique_ptr<Recording> record(const std::function<void()>& body) override {
    ++recorded;
    return PretendDevice::record(body);
  }
  int recorded = 0;
};

SparseWorkload workload_of(int steps) {
  SparseWorkload w;
  w.streams = 2, w.chunk = 4, w.tokens = 4 * steps - 1, w.writes = 3, w.reads = 3, w.head_dim = 8, w.slots = 16;
  return w;
}

class PlanMode : public testing::Test {
 protected:
  CountingDevice device;
  Parallel threads{2};
  const Registry stages = pretended_stages();
};

TEST(PlanParts, StepsAreCutInOrderAndInFewEnoughRanges) {
  using Ranges = std::vector<StepRange>;
  EXPECT_EQ(cut_steps(3, 254), (Ranges{{0, 2}, {2, 3}}));
  EXPECT_EQ(cut_steps(7, 3), (Ranges{{0, 3}, {3, 6}, {6, 7}}));
  EXPECT_EQ(cut_steps(0, 3), Ranges{});
  for (int steps = 1; steps < 1200; ++steps)
    for (const int most : {1, 2, 254}) {
      const Ranges ranges = cut_steps(steps, most);
      ASSERT_LE(ranges.size(), static_cast<std::size_t>(most)) << steps;
      int next = 0;
      for (const StepRange range : ranges) {
        ASSERT_EQ(range.first, next) << steps;
        ASSERT_GT(range.last, range.first) << steps;
        next = range.last;
      }
      ASSERT_EQ(next, steps) << most;
      if (steps <= 2 * most) {
        ASSERT_EQ(ranges.size(), static_cast<std::size_t>((steps + 1) / 2));
      }
    }
}

TEST_F(PlanMode, RecordsStepsInPairsOnceAndKeepsTheBits) {
  struct Expected {
    int steps, recordings;
  };
  // Forward: prepare and the steps; backward: combine_grad, the steps, what finishes. Of 600 steps three go together.
  for (const Expected expected : {Expected{1, 5}, {6, 9}, {254, 257}, {600, 403}}) {
    SCOPED_TRACE(fmt::format("{} steps", expected.steps));
    const SparseWorkload w = workload_of(expected.steps);
    const SparseInputs inputs = generate_inputs(w, threads);
    SparseSession session(w, inputs, device, threads, {}, stages);
    const StepDigests eager = run_step(session);
    session.set_launch(LaunchMode::plan);
    EXPECT_EQ(session.launch_name(), "plan");
    device.recorded = 0;
    for (int run = 0; run < 2; ++run) EXPECT_EQ(first_difference(session.buffers(), eager, run_step(session)), "");
    EXPECT_EQ(device.recorded, expected.recordings);
  }
}

TEST_F(PlanMode, OtherAddressesUpdateWhatIsRecorded) {
  const SparseWorkload w = workload_of(6);
  const SparseInputs inputs = generate_inputs(w, threads);
  for (const LaunchMode mode : {LaunchMode::plan, LaunchMode::graph}) {
    SparseSession session(w, inputs, device, threads, {}, stages);
    session.set_launch(mode);
    const StepDigests expected = run_step(session);
    const int recorded = device.recorded, parts = mode == LaunchMode::plan ? 9 : 2;
    const void* const before = session.buffers().bank.data;
    session.relocate();
    EXPECT_NE(session.buffers().bank.data, before);
    for (int run = 0; run < 2; ++run) EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
    EXPECT_EQ(session.updates().in_place, parts);
    EXPECT_EQ(session.updates().anew, 0);
    EXPECT_EQ(device.recorded, recorded) << "nothing was recorded from the beginning";
    session.set_geometry({.tile = 32});
    EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
    EXPECT_EQ(device.recorded, recorded + parts);
  }
}

TEST_F(PlanMode, ForwardAloneHasNoBackwardParts) {
  SparseWorkload w = workload_of(5);
  w.snapshot = SnapshotFormat::none;
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, device, threads, {}, stages);
  session.set_launch(LaunchMode::plan);
  run_step(session);
  EXPECT_EQ(device.recorded, 4);
}

TEST_F(PlanMode, AnObserverSeesEveryStage) {
  struct Calls final : StageObserver {
    void after(const StageCall& call) override { ++count, steps += call.step >= 0; }
    int count = 0, steps = 0;
  } calls;
  const SparseWorkload w = workload_of(5);
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, device, threads, {}, stages);
  session.set_launch(LaunchMode::plan);
  session.restore();
  session.run_training_step(&calls);
  EXPECT_EQ(device.recorded, 0);
  EXPECT_EQ(calls.steps, 5 * (3 + 4));
  EXPECT_EQ(calls.count, calls.steps + 5 + 1 + 2);
}

/// A recording that fails leaves nothing behind that a later run would take for the whole pass.
TEST_F(PlanMode, AFailedRecordingIsMadeAgain) {
  class FailingDevice final : public PretendDevice {
   public:
    std::unique_ptr<Recording> record(const std::function<void()>& body) override {
      if (--left == 0) throw std::bad_alloc();
      return PretendDevice::record(body);
    }
    int left = 4;
  } failing;
  const SparseWorkload w = workload_of(5);
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, failing, threads, {}, stages);
  const StepDigests eager = run_step(session);
  session.set_launch(LaunchMode::plan);
  session.restore();
  EXPECT_THROW(session.run(Pass::forward), std::bad_alloc);
  EXPECT_EQ(first_difference(session.buffers(), eager, run_step(session)), "");
}

}  // namespace
}  // namespace sdm::test
