#include "run/ab.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "report/compare.h"
#include "report/json.h"
#include "report/sample_stats.h"

namespace sdm {
namespace {

Case small_case() {
  Case c;
  c.id = c.name = "small";
  SparseWorkload w;
  w.streams = 1, w.tokens = 32, w.chunk = 8, w.writes = 4, w.reads = 4, w.head_dim = 16, w.slots = 64;
  c.workload = w;
  c.variants = {{"*", "auto"}};
  c.timing = {.min_samples = 5, .warmup = 1, .max_seconds = 0.2, .rel_iqr = 10};
  return c;
}

TEST(Interleaved, SidesAreSampledAlikeAndAgreeInBits) {
  const std::unique_ptr<Backend> host = make_host_backend();
  Parallel threads(1);
  const auto [a, b] = run_interleaved(small_case(), small_case(), {*host, threads});
  ASSERT_EQ(a.status, CaseStatus::ok) << a.reason;
  ASSERT_EQ(a.passes.size(), 2u);
  EXPECT_EQ(a.digests, b.digests);
  EXPECT_FALSE(a.digests.empty());
  EXPECT_GE(a.stages.size(), 13u);
  for (std::size_t i = 0; i < a.passes.size(); ++i) {
    EXPECT_EQ(a.passes[i].time.samples_us.size(), b.passes[i].time.samples_us.size());
    EXPECT_GE(a.passes[i].time.samples_us.size(), 5u);
  }
  EXPECT_TRUE(relative_spread(a, b).has_value());
}

TEST(Interleaved, ADenseCaseIsSkippedAndAnotherWorkloadRefused) {
  const std::unique_ptr<Backend> host = make_host_backend();
  Parallel threads(1);
  Case dense;
  dense.workload = DenseWorkload{};
  EXPECT_EQ(run_interleaved(dense, dense, {*host, threads}).first.status, CaseStatus::skipped);
  Case other = small_case();
  other.params["chunk"] = "16";
  EXPECT_THROW(run_interleaved(small_case(), other, {*host, threads}), InternalError);
}

TEST(Interleaved, SpreadIsTheLargestDifferenceOfMedians) {
  CaseResult a, b;
  a.passes = {{"forward", "cold", sample_stats({100}, 0, true), {}, {}, {}, {}}};
  b.passes = {{"forward", "cold", sample_stats({98}, 0, true), {}, {}, {}, {}}};
  a.stages = {{"mix", "forward", "cold", 1, sample_stats({10}, 0, true), {}, {}, {}, {}}};
  b.stages = {{"mix", "forward", "cold", 1, sample_stats({11}, 0, true), {}, {}, {}, {}}};
  EXPECT_NEAR(*relative_spread(a, b), 0.1, 1e-12);
  EXPECT_FALSE(relative_spread({}, {}));
}

/// A calibrated spread widens the relative limit of a comparison, and survives a result file.
TEST(Interleaved, CalibrationQuietensComparisons) {
  Report base, now;
  for (Report* report : {&base, &now}) {
    CaseResult c;
    c.id = "a", c.status = CaseStatus::ok;
    c.passes = {{"forward",
                 "cold",
                 sample_stats(std::vector<double>(20, report == &base ? 100.0 : 108.0), 0, true),
                 {},
                 {},
                 {},
                 {}}};
    report->cases = {c};
  }
  EXPECT_EQ(compare(merge_reports({base}, {"b"}), merge_reports({now}, {"n"}), {}).tally.slower, 1);
  base.cases[0].aa_spread = 0.1;
  const Report read = report_from_json(to_json(base), "f");
  EXPECT_EQ(read.cases[0].aa_spread, 0.1);
  EXPECT_EQ(compare(merge_reports({read}, {"b"}), merge_reports({now}, {"n"}), {}).tally.slower, 0);
}

}  // namespace
}  // namespace sdm
