// The determinism section of a result: stored, read, shown, gated.
#include <gtest/gtest.h>

#include "report/json.h"
#include "report/render.h"
#include "report/rows.h"
#include "run/case_support.h"

namespace sdm {
namespace {

CaseResult case_with_section() {
  CaseResult result;
  result.id = result.name = "case";
  result.status = CaseStatus::ok;
  result.determinism = Determinism{
      .stages = {{"gather", "rows", true, DeterminismLevel::cpu_equal, ""},
                 {"write", "ring", true, DeterminismLevel::cpu_equal, ""},
                 {"write", "atomic", false, DeterminismLevel::not_guaranteed, "approximate by design; varies (run 1)"}},
      .evidence = {{"repeat", DeterminismLevel::run_to_run, true}, {"replay", DeterminismLevel::cpu_equal, true}},
      .prices = {{"write", "forward", "ring", "atomic", 110, 100, true}}};
  return result;
}

Report report_of(CaseResult result) {
  Report report;
  report.run = {.id = "1", .status = "finished"};
  report.cases = {std::move(result)};
  return report;
}

TEST(DeterminismReport, SurvivesTheFile) {
  const Report report = report_of(case_with_section());
  const Report again = report_from_json(to_json(report), "test");
  EXPECT_EQ(again.cases[0].determinism, report.cases[0].determinism);
  EXPECT_NEAR(again.cases[0].determinism->prices[0].ratio(), 1.1, 1e-12);
}

TEST(DeterminismReport, OlderFilesHaveNone) {
  const Report report = load_report(SDM_SOURCE_DIR "/tests/fixtures/result_cpu.json");
  ASSERT_FALSE(report.cases.empty());
  for (const CaseResult& result : report.cases) {
    EXPECT_FALSE(result.determinism);
    EXPECT_TRUE(determinism_lines(result).empty());
  }
}

TEST(DeterminismReport, EveryFormSaysLevelsReasonsAndPrices) {
  const Report report = report_of(case_with_section());
  for (const char* form : {"table", "md", "html"}) {
    const std::string text = render(report, form, {});
    for (const char* part : {"cpu_equal in 2 stages", "not_guaranteed in 1 other variant", "approximate by design",
                             "price of order in the forward", "ratio 1.100"}) {
      std::string plain = text;  // markdown escapes underscores
      std::erase(plain, '\\');
      EXPECT_NE(plain.find(part), std::string::npos) << form << " lacks " << part;
    }
  }
}

TEST(DeterminismCost, FailsAboveTheLimit) {
  const std::vector<DeterminismPrice> prices = case_with_section().determinism->prices;
  EXPECT_EQ(judge_prices(prices, 1.2).status, CheckResult::Status::passed);
  const CheckResult dear = judge_prices(prices, 1.05);
  EXPECT_EQ(dear.status, CheckResult::Status::failed);
  EXPECT_NE(dear.detail.find("write/ring takes 1.100 times the time of atomic in the forward"), std::string::npos)
      << dear.detail;
  EXPECT_EQ(judge_prices({}, 1.05).status, CheckResult::Status::skipped);
}

TEST(DeterminismCost, TheLimitAsksForPrices) {
  std::vector<CheckSpec> specs;
  add_price_check(std::nullopt, specs);
  EXPECT_TRUE(specs.empty());
  add_price_check(1.1, specs);
  add_price_check(1.1, specs);
  ASSERT_EQ(specs.size(), 1u);
  EXPECT_EQ(specs[0].kind, CheckSpec::Kind::baselines);
}

}  // namespace
}  // namespace sdm
