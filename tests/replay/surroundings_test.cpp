// The checks that run a case in other surroundings, climb the ladder of variants and price order, on a pretended
// device.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "check/check.h"
#include "check/planted_fault.h"
#include "pretend_device.h"

namespace sdm::test {
namespace {

SparseWorkload small_workload() {
  SparseWorkload w;
  w.streams = 2, w.tokens = 22, w.chunk = 8, w.writes = 4, w.reads = 4, w.head_dim = 20, w.slots = 32;
  w.bank_dtype = w.grad_dtype = DType::f32;
  w.seed = 5;
  return w;
}

/// A workload on the pretended device with its reference run.
struct Bench {
  explicit Bench(const Registry& stages_, SparseWorkload workload_ = small_workload(),
                 std::map<std::string, std::string> variants_ = {})
      : workload(std::move(workload_)),
        stages(stages_),
        variants(std::move(variants_)),
        inputs(generate_inputs(workload, threads)),
        session(workload, inputs, device, threads, variants, stages),
        reference(run_step(session)),
        context{workload, inputs,  variants,          LaunchMode::eager,  session, device,
                *host,    threads, reference.forward, reference.backward, stages} {}

  CheckResult run(CheckSpec spec) { return run_check(spec, context); }

  Parallel threads{2};
  PretendDevice device;
  std::unique_ptr<Backend> host = make_host_backend();
  SparseWorkload workload;
  Registry stages;
  std::map<std::string, std::string> variants;
  SparseInputs inputs;
  SparseSession session;
  StepDigests reference;
  CheckContext context;
};

using Kind = CheckSpec::Kind;

template <int kind>
void varies(const mix::Params& p, Parallel& threads, const Geometry&) {
  static int calls = 0;
  mix::replay(p, threads);
  if (kind == 0 || p.step == 0) p.reading[0] += static_cast<float>(++calls);
}

/// mix with an approximate second variant that really varies, and one that does not.
Registry with_baseline(bool varying) {
  Registry stages = pretended_stages();
  static Variant<mix::Params> restless = as_variant<mix::Params, varies<1>>("restless");
  static Variant<mix::Params> calm = as_variant<mix::Params, honest<mix::Params, mix::replay>>("calm");
  restless.guarantee = calm.guarantee = Guarantee::approximate;
  restless.automatic = calm.automatic = false;
  static const Variant<mix::Params>* list[2];
  list[0] = stages.mix.variants.front();
  list[1] = varying ? &restless : &calm;
  stages.mix.variants = list;
  return stages;
}

TEST(Surroundings, HonestStagesHoldOnEveryRung) {
  Bench bench(pretended_stages());
  bench.context.fresh_process = [&] {
    Digests all = bench.reference.forward;
    for (const auto& [stage, tensors] : bench.reference.backward) all[stage].insert(tensors.begin(), tensors.end());
    return all;
  };
  for (const Kind kind : {Kind::repeat, Kind::poison, Kind::disturbed, Kind::half_device, Kind::fragmented,
                          Kind::process, Kind::guards, Kind::replay})
    EXPECT_EQ(bench.run({.kind = kind}).status, CheckResult::Status::passed) << name_of(kind);
  EXPECT_EQ(bench.run({.kind = Kind::invariance, .axes = {"geometry", "launch", "stream_order", "batch"}}).status,
            CheckResult::Status::passed);
  const auto section = bench.context.ledger.finish(bench.session.resolved(), false);
  ASSERT_TRUE(section);
  EXPECT_EQ(section->stages.size(), 15u);
  for (const StageDeterminism& row : section->stages) {
    EXPECT_EQ(row.level, DeterminismLevel::cpu_equal) << row.stage << ": " << row.reason;
    EXPECT_EQ(row.reason, "");
  }
}

TEST(Surroundings, ALevelNeedsItsOwnEvidence) {
  Bench bench(pretended_stages());
  EXPECT_FALSE(bench.context.ledger.finish(bench.session.resolved(), false)) << "no check, no section";
  bench.run({.kind = Kind::repeat});
  bench.run({.kind = Kind::replay});
  const auto section = bench.context.ledger.finish(bench.session.resolved(), false);
  for (const StageDeterminism& row : section->stages) {
    EXPECT_EQ(row.level, DeterminismLevel::run_to_run);
    EXPECT_EQ(row.reason, "no check of this case speaks for geometry");
  }
}

TEST(Surroundings, ADifferenceLowersItsStageAlone) {
  Bench bench(pretended_stages());
  bench.run({.kind = Kind::repeat});
  bench.context.ledger.note("disturbed", DeterminismLevel::run_to_run, {"mix/reading", {"mix"}});
  for (const StageDeterminism& row : bench.context.ledger.finish(bench.session.resolved(), false)->stages) {
    const bool mixes = row.stage == "mix";
    EXPECT_EQ(row.level, mixes ? DeterminismLevel::not_guaranteed : DeterminismLevel::run_to_run) << row.stage;
    EXPECT_EQ(row.reason == "differs in disturbed, first in mix/reading", mixes);
  }
}

TEST(Surroundings, ALoadThatEndedProvesNothing) {
  Bench bench(pretended_stages());
  bench.device.loads_last = false;
  const CheckResult result = bench.run({.kind = Kind::half_device});
  EXPECT_EQ(result.status, CheckResult::Status::failed);
  EXPECT_NE(result.detail.find("nothing was proven"), std::string::npos);
}

TEST(Surroundings, ABrokenFreshProcessFailsTheCheckAlone) {
  Bench bench(pretended_stages());
  bench.context.fresh_process = []() -> Digests { throw UserError("it ended by signal 9"); };
  const CheckResult result = bench.run({.kind = Kind::process});
  EXPECT_EQ(result.status, CheckResult::Status::failed);
  EXPECT_EQ(result.detail, "it ended by signal 9");
  bench.context.fresh_process = [] { return Digests{}; };
  EXPECT_EQ(bench.run({.kind = Kind::process}).status, CheckResult::Status::failed) << "no digests are no proof";
}

TEST(Ladder, EveryExactVariantIsClimbedAndListed) {
  Registry stages = pretended_stages();
  static const Variant<mix::Params> twin = as_variant<mix::Params, honest<mix::Params, mix::replay>>("twin");
  static const Variant<mix::Params>* list[2];
  list[0] = stages.mix.variants.front(), list[1] = &twin;
  stages.mix.variants = list;
  Bench bench(stages);
  EXPECT_EQ(bench.run({.kind = Kind::agree, .ladder = true}).status, CheckResult::Status::passed);
  bench.run({.kind = Kind::replay});
  const auto section = bench.context.ledger.finish(bench.session.resolved(), false);
  const auto row = std::find_if(section->stages.begin(), section->stages.end(),
                                [](const StageDeterminism& r) { return r.stage == "mix" && r.variant == "twin"; });
  ASSERT_NE(row, section->stages.end());
  EXPECT_FALSE(row->chosen);
  EXPECT_EQ(row->level, DeterminismLevel::cpu_equal);
}

TEST(Baselines, AVaryingOneIsSeenAndPriced) {
  Bench bench(with_baseline(true));
  bench.context.price = true;
  const CheckResult result = bench.run({.kind = Kind::baselines});
  EXPECT_EQ(result.status, CheckResult::Status::passed) << result.detail;
  EXPECT_NE(result.detail.find("mix/restless varies (run 1)"), std::string::npos) << result.detail;
  ASSERT_EQ(bench.context.ledger.prices().size(), 1u);
  EXPECT_GT(bench.context.ledger.prices()[0].ratio(), 0);
  EXPECT_TRUE(bench.context.ledger.prices()[0].varied);
  const auto section = bench.context.ledger.finish(bench.session.resolved(), false);
  EXPECT_TRUE(std::any_of(section->stages.begin(), section->stages.end(), [](const StageDeterminism& r) {
    return r.variant == "restless" && r.level == DeterminismLevel::not_guaranteed && !r.chosen;
  }));
}

TEST(Baselines, OneThatNeverVariesOnHotSlotsIsAFailure) {
  Bench cool(with_baseline(false));
  EXPECT_EQ(cool.run({.kind = Kind::baselines}).status, CheckResult::Status::passed);
  SparseWorkload hot = small_workload();
  hot.tokens = hot.chunk = 80;
  hot.distribution = {.kind = Distribution::Kind::hot, .hot_slots = 4};
  Bench warm(with_baseline(false), hot);
  const CheckResult result = warm.run({.kind = Kind::baselines});
  EXPECT_EQ(result.status, CheckResult::Status::failed) << result.detail;
  EXPECT_NE(result.detail.find("nothing was seen to vary"), std::string::npos);
}

TEST(Baselines, ACaseOfOneIsExpectedToVary) {
  Bench bench(with_baseline(true), small_workload(), {{"mix", "restless"}});
  const CheckResult result = bench.run({.kind = Kind::repeat});
  EXPECT_EQ(result.status, CheckResult::Status::passed) << result.detail;
  EXPECT_NE(result.detail.find("varies, as expected of mix/restless"), std::string::npos) << result.detail;
  EXPECT_NE(result.detail.find("first after mix of step 0 in reading"), std::string::npos) << result.detail;
  EXPECT_EQ(bench.run({.kind = Kind::disturbed}).status, CheckResult::Status::skipped);
  for (const StageDeterminism& row : bench.context.ledger.finish(bench.session.resolved(), false)->stages)
    EXPECT_TRUE(row.stage != "mix" || row.level == DeterminismLevel::not_guaranteed);
}

}  // namespace
}  // namespace sdm::test
