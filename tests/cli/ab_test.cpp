// run --ab and run --calibrate, end to end on the host.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/compare_support.h"
#include "tests/support/sanitized.h"

namespace sdm::test {
namespace {

using Json = nlohmann::json;

class AbVerb : public testing::Test {
 protected:
  ToolRun run(const std::string& more) const {
    return folder_.tool(
        "run " + std::string(SDM_SOURCE_DIR) +
        "/configs/smoke.json --filter raw_bf16 --device cpu --set timing.min_samples=3 --set timing.max_seconds=0.05 "
        "--set timing.rel_iqr=1 --quiet " +
        more);
  }
  ScratchFolder folder_;
};

TEST_F(AbVerb, ReportsBothSidesAndTheVerdict) {
  const std::string out = folder_.file("ab.json");
  const ToolRun ab = run("--ab variants.write=direct -o " + out);
  ASSERT_EQ(ab.exit_code, 0) << ab.err;
  const Json comparison = Json::parse(text_of(out));
  EXPECT_EQ(comparison["base"]["files"][0], "A: as configured");
  EXPECT_EQ(comparison["new"]["files"][0], "B: variants.write=direct");
  EXPECT_EQ(comparison["cases"][0]["digests"]["verdict"], "equal");
  for (const char* side : {".a.json", ".b.json"}) {
    const Json result = Json::parse(text_of(out + side));
    EXPECT_EQ(result["cases"][0]["passes"].size(), 2u);
    EXPECT_GE(result["cases"][0]["passes"][0]["samples"].size(), kSanitized ? 1u : 3u);  // the time limit
  }
  const ToolRun two = run("--ab variants.write=direct --ab 'variants.write=ring;launch=eager'");
  EXPECT_EQ(two.exit_code, 0) << two.err;
  EXPECT_NE(two.out.find("B: variants.write=ring;launch=eager"), std::string::npos) << two.out;
}

TEST_F(AbVerb, TheWorkloadStaysAsItIs) {
  const ToolRun refused = run("--ab workload.chunk=8");
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_NE(refused.err.find("an A/B changes variants.<stage>=<name> or launch=<mode>"), std::string::npos)
      << refused.err;
  EXPECT_EQ(run("--ab launch=eager --ab launch=graph --ab launch=pdl").exit_code, 2);
}

TEST_F(AbVerb, IsRefusedBeforeAnythingRuns) {
  const ToolRun format = run("--ab launch=eager --format csv");
  EXPECT_EQ(format.exit_code, 2);
  EXPECT_NE(format.err.find("no format 'csv'"), std::string::npos) << format.err;
  const ToolRun swept = run("--set 'launch=[\"eager\",\"graph\"]' --ab launch=pdl");
  EXPECT_EQ(swept.exit_code, 2);
  EXPECT_NE(swept.err.find("not have the same cases"), std::string::npos) << swept.err;
  std::ofstream(folder_.file("kept.b.json")) << "kept";
  const ToolRun exists = run("--ab launch=eager -o " + folder_.file("kept"));
  EXPECT_EQ(exists.exit_code, 2);
  EXPECT_NE(exists.err.find("kept.b.json"), std::string::npos) << exists.err;
}

TEST_F(AbVerb, DryRunNamesTheCases) {
  const ToolRun dry = run("--ab launch=eager --dry-run");
  EXPECT_EQ(dry.exit_code, 0) << dry.err;
  EXPECT_EQ(dry.out, "smoke/raw_bf16\n");
}

TEST_F(AbVerb, CalibrationStoresTheSpread) {
  ASSERT_EQ(run("--calibrate -o " + folder_.file("c.json")).exit_code, 0);
  const Json result = Json::parse(text_of(folder_.file("c.json")))["cases"][0];
  EXPECT_GE(result["aa_spread"].get<double>(), 0.0);
  ASSERT_EQ(run("-o " + folder_.file("d.json")).exit_code, 0);
  EXPECT_FALSE(Json::parse(text_of(folder_.file("d.json")))["cases"][0].contains("aa_spread"));
}

}  // namespace
}  // namespace sdm::test
