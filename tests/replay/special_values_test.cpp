// Subnormals, signed zeros, infinities and NaN as inputs: drawn as the config says, and every bit of the results
// defined.
#include <gtest/gtest.h>

#include <cmath>

#include "base/digest.h"
#include "check/check.h"
#include "workload/special_values.h"

namespace sdm::test {
namespace {

SparseWorkload special_workload(Values values, SnapshotFormat snapshot = SnapshotFormat::raw) {
  SparseWorkload w;
  w.streams = 2, w.tokens = 22, w.chunk = 8, w.writes = 4, w.reads = 4, w.head_dim = 20, w.slots = 32;
  w.bank_dtype = w.grad_dtype = DType::f32;
  w.final_bank_gradient = true;
  w.snapshot = snapshot;
  w.values = values;
  w.seed = 5;
  return w;
}

struct Count {
  int nan = 0, infinite = 0, subnormal = 0, negative_zero = 0;
};

Count count(const std::vector<float>& numbers) {
  Count c;
  for (const float x : numbers) {
    c.nan += std::isnan(x);
    c.infinite += std::isinf(x);
    c.subnormal += std::fpclassify(x) == FP_SUBNORMAL;
    c.negative_zero += x == 0 && std::signbit(x);
  }
  return c;
}

TEST(SpecialValues, AreDrawnAsAsked) {
  Parallel threads(2);
  for (const Values values : {Values::ordinary, Values::tiny, Values::infinite, Values::nan}) {
    const SparseInputs inputs = generate_inputs(special_workload(values), threads);
    const Count v = count(inputs.v);
    EXPECT_EQ(v.subnormal > 0, values != Values::ordinary);
    EXPECT_EQ(v.negative_zero > 0, values != Values::ordinary);
    EXPECT_EQ(v.infinite > 0, values == Values::infinite || values == Values::nan);
    EXPECT_EQ(v.nan > 0, values == Values::nan);
    for (const float g : inputs.g) EXPECT_TRUE(std::isnan(g) || g <= 0) << g;
    for (const float beta : inputs.beta) EXPECT_TRUE(std::isnan(beta) || (beta >= 0 && beta <= 1)) << beta;
  }
}

TEST(SpecialValues, DoNotDependOnTheChunkSize) {
  Parallel threads(2);
  SparseWorkload w = special_workload(Values::nan);
  w.tokens = 16;  // no padding
  w.streams = 1;
  const SparseInputs eight = generate_inputs(w, threads);
  w.chunk = 16;
  const SparseInputs sixteen = generate_inputs(w, threads);
  EXPECT_EQ(digest_f32(eight.v), digest_f32(sixteen.v));
  EXPECT_EQ(digest_f32(eight.k), digest_f32(sixteen.k));
}

/// Every check that applies to the host holds on special inputs; the oracle says why it does not.
TEST(SpecialValues, EveryResultIsDefined) {
  const std::unique_ptr<Backend> host = make_host_backend();
  Parallel threads(2);
  using Kind = CheckSpec::Kind;
  for (const Values values : {Values::tiny, Values::infinite, Values::nan})
    for (const SnapshotFormat snapshot : {SnapshotFormat::raw, SnapshotFormat::per_entry, SnapshotFormat::bf16,
                                          SnapshotFormat::fp8, SnapshotFormat::int4}) {
      const SparseWorkload workload = special_workload(values, snapshot);
      const SparseInputs inputs = generate_inputs(workload, threads);
      const std::map<std::string, std::string> variants;
      SparseSession session(workload, inputs, *host, threads, variants);
      const StepDigests reference = run_step(session);
      CheckContext context{workload, inputs, variants, LaunchMode::automatic, session,
                           *host,    *host,  threads,  reference.forward,     reference.backward};
      for (const CheckSpec& spec :
           {CheckSpec{.kind = Kind::repeat}, CheckSpec{.kind = Kind::guards}, CheckSpec{.kind = Kind::poison},
            CheckSpec{.kind = Kind::bank_restored},
            CheckSpec{.kind = Kind::invariance, .axes = {"threads", "stream_order", "batch"}}}) {
        const CheckResult result = run_check(spec, context);
        EXPECT_EQ(result.status, CheckResult::Status::passed)
            << name_of(snapshot) << " " << static_cast<int>(values) << " " << result.name << ": " << result.detail;
      }
      const CheckResult oracle = run_check({.kind = Kind::oracle}, context);
      EXPECT_NE(oracle.status, CheckResult::Status::failed) << static_cast<int>(values) << ": " << oracle.detail;
    }
}

}  // namespace
}  // namespace sdm::test
