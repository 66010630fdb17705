// Stages beside each other: which stream and which share of the device every launch gets, and that a stage leaves the
// order of a pass only where its variant says that it may.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backend/executor.h"
#include "check/check.h"
#include "forking_device.h"

namespace sdm::test {
namespace {

/// How the launches of this were made: one, then one beside two, then two.
std::vector<LaunchContext> launches_on(ForkingDevice& device) {
  std::vector<LaunchContext> launched;
  Parallel threads(1);
  Executor executor(device, threads, {.stream = stream_number(0), .dependent_launch = true});
  const auto run = [&] { executor.run(StagePick<Noting>{&kNotingStage, &kNotingVariant}, Noting{&launched}); };
  run();
  executor.beside(run, [&] { run(), run(); });
  EXPECT_EQ(launched.size(), 4u);
  run(), run();
  return launched;
}

TEST(Beside, EveryLaunchGetsItsStreamAndShareAndTheFirstBehindThemWaitsForBoth) {
  ForkingDevice device(1);
  const std::vector<LaunchContext> launched = launches_on(device);
  EXPECT_EQ(device.joined, 1);
  for (std::size_t i = 0; i < launched.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(launched[i].stream, stream_number(i == 1 ? 1 : 0));
    EXPECT_EQ(launched[i].share, i == 1 ? Share::rest : (i == 2 || i == 3 ? Share::first : Share::whole));
    EXPECT_EQ(launched[i].dependent_launch, i != 4);
  }
}

TEST(Beside, WithoutASecondStreamOneFollowsTheOther) {
  ForkingDevice device(0);
  for (const LaunchContext& context : launches_on(device)) {
    EXPECT_EQ(context.stream, stream_number(0));
    EXPECT_EQ(context.share, Share::whole);
    EXPECT_TRUE(context.dependent_launch);
  }
  EXPECT_EQ(device.forked, 1);
  EXPECT_EQ(device.joined, 0);
}

TEST(Beside, DecaySumsRunBesideInteractionsThatDoNotReadThem) {
  using Interactions = interactions::Params;
  static Variant<Interactions> variant =
      as_variant<Interactions, honest<Interactions, interactions::replay>>("independent");
  static const Variant<Interactions>* const list[] = {&variant};
  Registry stages = pretended_stages();
  stages.interactions.variants = list;
  SparseWorkload w;
  w.streams = 2, w.chunk = 4, w.tokens = 19, w.writes = 3, w.reads = 3, w.head_dim = 8, w.slots = 16;
  Parallel threads{2};
  const SparseInputs inputs = generate_inputs(w, threads);
  for (const std::string_view independent_of : {"", "solve", "decay_sums"}) {
    SCOPED_TRACE(independent_of);
    variant.independent_of = independent_of;
    const int forks = independent_of == "decay_sums" ? 1 : 0;
    ForkingDevice device(1);
    SparseSession session(w, inputs, device, threads, {}, stages);
    session.restore();
    session.run_prepare();
    EXPECT_EQ(device.forked, forks);
    EXPECT_EQ(device.joined, forks);
    std::vector<std::string> calls;
    struct Order final : StageObserver {
      explicit Order(std::vector<std::string>& names) : names_(names) {}
      void after(const StageCall& call) override { names_.emplace_back(call.stage); }
      std::vector<std::string>& names_;
    } order(calls);
    session.run(Pass::forward, &order);
    calls.resize(5);
    EXPECT_EQ(calls, (std::vector<std::string>{"group_entries", "decay_sums", "interactions", "solve", "combine"}));
  }
}

}  // namespace
}  // namespace sdm::test
