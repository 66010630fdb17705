// The steps of a recorded pass in branches, each with some of the streams: which launches go where, and that stages
// which take some streams do for these what they do for all.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "backend/executor.h"
#include "check/check.h"
#include "forking_device.h"

namespace sdm::test {
namespace {

using Range = std::pair<int, int>;

struct Launched {
  std::vector<Range> ranges;
  std::vector<LaunchContext> contexts;
};

/// One launch, `parts` in branches with two launches each, and two launches.
Launched launches_on(ForkingDevice& device, int parts, int branches) {
  Launched launched;
  Parallel threads(1);
  const LaunchContext context{
      .device = *device.device(), .stream = stream_number(0), .dependent_launch = true, .branches = branches};
  Executor executor(device, threads, context);
  const auto run = [&] { executor.run(StagePick<Noting>{&kNotingStage, &kNotingVariant}, Noting{&launched.contexts}); };
  run();
  executor.in_branches(parts, [&](int first, int last) {
    launched.ranges.emplace_back(first, last);
    run(), run();
  });
  run(), run();
  return launched;
}

TEST(Branches, EveryOneHasItsRangeItsStreamAndItsShare) {
  ForkingDevice device(8);
  const Launched launched = launches_on(device, 7, 3);
  EXPECT_EQ(launched.ranges, (std::vector<Range>{{0, 2}, {2, 4}, {4, 7}}));
  EXPECT_EQ(device.joined, 1);
  const int streams[] = {0, 0, 0, 1, 1, 2, 2, 0, 0};
  // The first launch of a forked stream, and the one behind the join, wait for more than the launch before them.
  const bool dependent[] = {true, true, true, false, true, false, true, false, true};
  ASSERT_EQ(launched.contexts.size(), std::size(streams));
  for (std::size_t i = 0; i < std::size(streams); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(launched.contexts[i].stream, stream_number(streams[i]));
    EXPECT_EQ(launched.contexts[i].dependent_launch, dependent[i]);
    const bool inside = i >= 1 && i <= 6;
    EXPECT_EQ(launched.contexts[i].device.multiprocessors, inside ? 58 : 132);  // a third more than 44
  }
}

TEST(Branches, NoMoreThanParts) {
  ForkingDevice device(8);
  EXPECT_EQ(launches_on(device, 2, 4).ranges, (std::vector<Range>{{0, 1}, {1, 2}}));
  EXPECT_EQ(device.forked, 1);
}

TEST(Branches, OneWhereNothingForksOrNoneAreAskedFor) {
  for (const auto& [most, branches] : {Range{0, 4}, Range{8, 1}}) {
    ForkingDevice device(most);
    const Launched launched = launches_on(device, 5, branches);
    EXPECT_EQ(launched.ranges, (std::vector<Range>{{0, 5}}));
    EXPECT_EQ(device.joined, 0);
    for (const LaunchContext& context : launched.contexts) {
      EXPECT_EQ(context.stream, stream_number(0));
      EXPECT_TRUE(context.dependent_launch);
      EXPECT_EQ(context.device.multiprocessors, device.device()->multiprocessors);
    }
  }
}

TEST(Branches, AreAsFewAsHaveTheSameLongestOne) {
  for (const auto& [parts, count] :
       {Range{1, 1}, {2, 2}, {8, 8}, {9, 5}, {10, 5}, {11, 6}, {12, 6}, {32, 8}, {33, 7}}) {
    EXPECT_EQ(branch_count(parts, 8), count) << parts;
    EXPECT_EQ(branch_count(parts, 1), 1);
  }
}

/// Workloads of five streams, whose last chunk is short, in every format of what is saved.
std::vector<SparseWorkload> workloads() {
  std::vector<SparseWorkload> all;
  for (const SnapshotFormat format : {SnapshotFormat::none, SnapshotFormat::per_entry, SnapshotFormat::raw,
                                      SnapshotFormat::bf16, SnapshotFormat::fp8, SnapshotFormat::int4})
    for (const int head_dim : {24, 264}) {  // one plane of every dot, and several
      SparseWorkload w;
      w.streams = 5, w.chunk = 8, w.tokens = 29, w.writes = 3, w.reads = 4, w.head_dim = head_dim, w.slots = 16;
      w.snapshot = format, w.final_bank_gradient = true;
      if (format == SnapshotFormat::bf16) w.bank_dtype = w.grad_dtype = DType::f32;
      w.gradient_copy = format == SnapshotFormat::raw;
      all.push_back(w);
    }
  return all;
}

TEST(Branches, HaveTheBitsOfAllStreamsAtOnce) {
  const Registry stages = pretended_stages();
  Parallel threads{2};
  for (const SparseWorkload& w : workloads()) {
    SCOPED_TRACE(testing::Message() << name_of(w.snapshot) << ", " << w.head_dim << " columns");
    const SparseInputs inputs = generate_inputs(w, threads);
    ForkingDevice device(8);
    SparseSession session(w, inputs, device, threads, {}, stages);
    session.set_launch(LaunchMode::eager);
    const StepDigests expected = run_step(session);
    EXPECT_EQ(device.launches["gather"], w.steps());
    EXPECT_EQ(device.forked, 0);
    session.set_launch(LaunchMode::automatic);
    EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
    EXPECT_EQ(device.launches["gather"] % w.steps(), 0);
    EXPECT_GT(device.launches["gather"], 2 * w.steps());
    EXPECT_GT(device.joined, 0);
  }
}

}  // namespace
}  // namespace sdm::test
