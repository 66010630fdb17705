// The verb `compare` on stored result files, end to end.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "tests/cli/compare_support.h"

namespace sdm::test {
namespace {

using Json = nlohmann::ordered_json;

Json stored() { return Json::parse(text_of(fixture("result_cpu.json"))); }

void scale(Json& timing, double factor) {
  for (const char* key : {"median_us", "q1_us", "q3_us", "min_us", "p95_us"})
    if (!timing[key].is_null()) timing[key] = timing[key].get<double>() * factor;
  for (Json& sample : timing["samples"]) sample = sample.get<double>() * factor;
}

void for_timings(Json& report, const std::function<void(Json&)>& edit) {
  for (Json& c : report["cases"])
    for (const char* list : {"passes", "stages"})
      for (Json& timing : c[list]) edit(timing);
}

class CompareVerb : public testing::Test {
 protected:
  std::string base() const { return fixture("result_cpu.json"); }
  std::string changed(const std::function<void(Json&)>& edit) {
    Json report = stored();
    edit(report);
    return folder_.write("new" + std::to_string(files_++) + ".json", report.dump(2));
  }
  ToolRun compare(const std::string& arguments) const { return folder_.tool("compare --color never " + arguments); }

  ScratchFolder folder_;
  int files_ = 0;
};

TEST_F(CompareVerb, AFileAgainstItselfIsTheSame) {
  const ToolRun run = compare(base() + " -- " + base() + " --require-all");
  EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_NE(run.out.find("verdict: good"), std::string::npos) << run.out;
  EXPECT_EQ(run.out.find("slower"), std::string::npos) << run.out;
  EXPECT_EQ(compare(base() + " " + base()).exit_code, 0);  // two files need no --
}

TEST_F(CompareVerb, ExitCodes) {
  const std::string slower = changed([](Json& r) { for_timings(r, [](Json& t) { scale(t, 2); }); });
  const std::string bits = changed([](Json& r) { r["cases"][0]["digests"]["write"]["bank"] = std::string(32, '0'); });
  const std::string failed =
      changed([](Json& r) { r["cases"][0]["status"] = "failed", r["cases"][0]["reason"] = "guards: broken"; });
  const std::string less = changed([](Json& r) { r["cases"].erase(0); });
  EXPECT_EQ(compare(base() + " -- " + slower).exit_code, 3);
  EXPECT_EQ(compare(slower + " -- " + base()).exit_code, 0);
  EXPECT_EQ(compare(base() + " -- " + bits).exit_code, 1);
  EXPECT_EQ(compare(base() + " -- " + failed).exit_code, 1);
  EXPECT_EQ(compare(base() + " -- " + less).exit_code, 0);
  EXPECT_EQ(compare(base() + " -- " + less + " --require-all").exit_code, 4);
  EXPECT_EQ(compare(base() + " -- " + slower + " --digests").exit_code, 0);
  EXPECT_EQ(compare(base() + " -- " + bits + " --digests").exit_code, 1);
}

TEST_F(CompareVerb, ThreeHundredSlowerRowsAreStillThree) {
  const auto many = [](double factor) {
    return [factor](Json& r) {
      const Json first = r["cases"][0];
      for (int i = 0; i < 300; ++i) {
        r["cases"].push_back(first);
        r["cases"].back()["id"] = "copy" + std::to_string(i);
      }
      for_timings(r, [&](Json& t) { scale(t, factor); });
    };
  };
  const ToolRun run = compare(changed(many(1)) + " -- " + changed(many(2)));
  EXPECT_EQ(run.exit_code, 3);
}

TEST_F(CompareVerb, OrderDoesNotMatter) {
  const std::string reversed = changed([](Json& r) {
    std::reverse(r["cases"].begin(), r["cases"].end());
    for (Json& c : r["cases"]) std::reverse(c["stages"].begin(), c["stages"].end());
  });
  EXPECT_EQ(compare(base() + " -- " + reversed + " --require-all").exit_code, 0);
}

TEST_F(CompareVerb, ZeroNullAndSingleSamples) {
  const std::string zero = changed([](Json& r) { for_timings(r, [](Json& t) { scale(t, 0); }); });
  const std::string null = changed([](Json& r) {
    for_timings(r, [](Json& t) {
      for (const char* key : {"median_us", "q1_us", "q3_us", "min_us", "p95_us"}) t[key] = nullptr;
      t["samples"] = Json::array();
    });
  });
  const auto single = [](double factor) {
    return [factor](Json& r) {
      for_timings(r, [&](Json& t) {
        t["samples"] = Json::array({t["median_us"]});
        t["q1_us"] = t["q3_us"] = t["min_us"] = t["p95_us"] = t["median_us"];
        scale(t, factor);
      });
    };
  };
  EXPECT_EQ(compare(zero + " -- " + zero + " --require-all").exit_code, 0);
  EXPECT_EQ(compare(zero + " -- " + base()).exit_code, 3);
  EXPECT_EQ(compare(base() + " -- " + zero).exit_code, 0);
  EXPECT_EQ(compare(base() + " -- " + null).exit_code, 0);
  EXPECT_EQ(compare(base() + " -- " + null + " --require-all").exit_code, 4);
  const ToolRun run = compare(changed(single(1)) + " -- " + changed(single(3)));
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_NE(run.out.find("more samples of the ambiguous cases"), std::string::npos) << run.out;
  EXPECT_NE(run.out.find("--filter"), std::string::npos);
}

TEST_F(CompareVerb, OtherGpuSchemaAndContract) {
  const std::string gpu = changed([](Json& r) {
    r["devices"][0]["name"] = "NVIDIA H200";
    r["devices"][0]["kind"] = "cuda";
  });
  const ToolRun refused = compare(base() + " -- " + gpu);
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_NE(refused.out.find("--cross-device"), std::string::npos) << refused.out;
  EXPECT_EQ(compare(base() + " -- " + gpu + " --cross-device").exit_code, 0);
  EXPECT_EQ(compare(base() + " -- " + gpu + " --digests --require-all").exit_code, 0);

  const ToolRun schema = compare(base() + " -- " + changed([](Json& r) { r["schema"] = 2; }));
  EXPECT_EQ(schema.exit_code, 2);
  EXPECT_NE(schema.err.find("schema is 2; this build reads schema 1"), std::string::npos) << schema.err;

  const ToolRun contract = compare(base() + " -- " + changed([](Json& r) {
                                     for (Json& c : r["cases"])
                                       c["geometry"]["contract_version"] = "99",
                                       c["digests"]["write"]["bank"] = std::string(32, '0');
                                   }));
  EXPECT_EQ(contract.exit_code, 0);
  EXPECT_NE(contract.out.find("contract version"), std::string::npos) << contract.out;
}

TEST_F(CompareVerb, SeveralFilesASide) {
  const std::string slower = changed([](Json& r) { for_timings(r, [](Json& t) { scale(t, 2); }); });
  const ToolRun run = compare(base() + " " + base() + " -- " + slower + " " + slower + " --format json -o -");
  EXPECT_EQ(run.exit_code, 3);
  const Json out = Json::parse(run.out);
  EXPECT_EQ(out["base"]["files"].size(), 2u);
  EXPECT_EQ(out["outcome"], "regression");
  const std::size_t once = stored()["cases"][0]["passes"][0]["samples"].size();
  EXPECT_EQ(out["cases"][0]["rows"][0]["base"]["samples"], 2 * once);
}

TEST_F(CompareVerb, ThresholdsFile) {
  const std::string slower = changed([](Json& r) { for_timings(r, [](Json& t) { scale(t, 2); }); });
  const std::string loose =
      folder_.write("loose.json", R"({"schema": 1, "metrics": {"median_us": {"relative": 1.5}}})");
  const std::string wrong = folder_.write("wrong.json", R"({"schema": 1, "metrics": {"medain_us": {}}})");
  EXPECT_EQ(compare(base() + " -- " + slower + " --thresholds " + loose).exit_code, 0);
  EXPECT_EQ(compare(base() + " -- " + slower + " --relative 1.5").exit_code, 0);
  const ToolRun run = compare(base() + " -- " + base() + " --thresholds " + wrong);
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_NE(run.err.find("did you mean \"median_us\""), std::string::npos) << run.err;
}

TEST_F(CompareVerb, WritesFilesByEndingAndRefusesNonsense) {
  const std::string out = folder_.file("c.md");
  EXPECT_EQ(compare(base() + " -- " + base() + " -o " + out).exit_code, 0);
  EXPECT_NE(text_of(out).find("| case | digests |"), std::string::npos);
  EXPECT_EQ(compare(base() + " -- " + base() + " -o " + out).exit_code, 2);  // exists
  EXPECT_EQ(compare(base() + " -- " + base() + " -o " + out + " --force").exit_code, 0);
  EXPECT_EQ(compare(base()).exit_code, 2);
  EXPECT_EQ(compare(base() + " -- " + folder_.file("none.json")).exit_code, 2);
  EXPECT_EQ(compare(base() + " -- " + base() + " --format csv").exit_code, 2);
  const ToolRun help = folder_.tool("compare --help");
  EXPECT_NE(help.out.find("BASE... -- NEW..."), std::string::npos) << help.out;
}

}  // namespace
}  // namespace sdm::test
