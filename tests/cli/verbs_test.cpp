// check, list, env, report, roof and help: what they print, and where.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "kernels/registry.h"
#include "process.h"

namespace sdm::test {
namespace {

using Json = nlohmann::json;

TEST(Check, SaysWhatAConfigNeeds) {
  for (const char* name :
       {"quickstart", "smoke", "correctness", "determinism", "determinism_cost", "planted", "h200_perf", "dense"}) {
    const Outcome outcome = bench({"check", config(name)});
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_NE(outcome.out.find("cases, all valid"), std::string::npos) << outcome.out;
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(List, NamesEveryStageAndVariant) {
  const Outcome outcome = bench({"list", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  std::size_t i = 0;
  registry().each([&](const auto& stage) {
    const Json& listed = json.at("stages").at(i++);
    EXPECT_EQ(listed.at("name"), stage.name);
    EXPECT_EQ(listed.at("variants").size(), stage.variants.size() + 1);
  });
  EXPECT_EQ(json.at("devices").at(0).at("id"), "cpu");
  const Outcome text = bench({"list"});
  for (const Json& stage : json.at("stages"))
    EXPECT_NE(text.out.find(stage.at("name").get<std::string>()), std::string::npos);
}

TEST(List, NamesTheCasesOfAConfig) {
  const Outcome text = bench({"list", config("quickstart")}), json = bench({"list", config("quickstart"), "--json"});
  EXPECT_EQ(std::count(text.out.begin(), text.out.end(), '\n'), 4) << text.out;
  const Json cases = Json::parse(json.out);
  ASSERT_EQ(cases.size(), 4u);
  for (const Json& c : cases) {
    EXPECT_NE(text.out.find(c.at("id").get<std::string>() + "\n"), std::string::npos);
    EXPECT_GT(std::stoll(c.at("memory_bytes").get<std::string>()), 0);
  }
}

TEST(List, FilterAndSetChooseCases) {
  const Outcome filtered = bench({"list", config("quickstart"), "--filter", "chunk=32"});
  EXPECT_EQ(std::count(filtered.out.begin(), filtered.out.end(), '\n'), 2) << filtered.out;
  const Outcome set = bench({"list", config("quickstart"), "--json", "--set", "workload.head_dim=32"});
  const Json listed = Json::parse(set.out);
  for (const Json& c : listed) EXPECT_EQ(c.at("params").at("head_dim"), "32") << c.dump();
}

TEST(Env, RecordsBuildAndMachine) {
  const Outcome outcome = bench({"env", "--json"}, {"SDM_TEST_SECRET=do-not-record"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json json = Json::parse(outcome.out);
  for (const char* key : {"version", "git_sha", "dirty", "build_type", "compiler", "flags", "contract_version",
                          "environment", "devices", "gpu"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_NE(json.at("flags").get<std::string>().find("-ffp-contract=off"), std::string::npos);
  EXPECT_EQ(outcome.out.find("do-not-record"), std::string::npos) << "only listed variables are recorded";
  EXPECT_EQ(bench({"env"}).code, 0);
}

TEST(Help, EveryVerbExplainsItself) {
  EXPECT_NE(bench({"--version"}).out.find("sdm-bench"), std::string::npos);
  const Outcome help = bench({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* verb : {"run", "conform", "compare", "gen", "check", "list", "report", "env", "roof"}) {
    EXPECT_NE(help.out.find(verb), std::string::npos) << verb;
    EXPECT_EQ(bench({verb, "--help"}).code, 0) << verb;
  }
}

TEST(Report, TurnsAResultIntoEveryFormat) {
  TempFolder folder;
  const std::string result = (folder / "result.json").string();
  ASSERT_EQ(bench({"run", folder.file("tiny.json", kTinyConfig), "--device", "cpu", "-o", result, "--quiet"}).code, 0);
  const std::vector<std::pair<std::string, std::string>> marks = {
      {"table", "tiny/"},      {"json", "\"schema\""},      {"md", "|"}, {"csv", ","}, {"jsonl", "{"},
      {"junit", "<testsuite"}, {"gbench", "\"benchmarks\""}};
  for (const auto& [format, mark] : marks) {
    const Outcome outcome = bench({"report", result, "--format", format});
    EXPECT_EQ(outcome.code, 0) << format << ": " << outcome.err;
    EXPECT_NE(outcome.out.find(mark), std::string::npos) << format << ": " << outcome.out;
    EXPECT_EQ(outcome.err, "") << format;
  }
  EXPECT_EQ(Json::parse(bench({"report", result, "--format", "json"}).out), Json::parse(slurp(result)))
      << "a result must survive the round trip";
  EXPECT_TRUE(Json::accept(bench({"report", result, "--format", "gbench"}).out));
}

TEST(Report, ChoosesTheFormatByTheFilesEnding) {
  TempFolder folder;
  const std::string result = (folder / "result.json").string(), csv = (folder / "result.csv").string();
  ASSERT_EQ(
      bench({"run", folder.file("tiny.json", kTinyConfig), "--device", "cpu", "-o", result, "--quiet", "--no-timing"})
          .code,
      0);
  EXPECT_EQ(bench({"report", result, "-o", csv}).code, 0);
  EXPECT_EQ(slurp(csv), bench({"report", result, "--format", "csv"}).out);
}

TEST(Roof, MeasuresTheHost) {
  const Outcome outcome = bench({"roof", "--device", "cpu", "--row-bytes", "256", "--seconds", "0.02", "--json"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json points = Json::parse(outcome.out);
  ASSERT_EQ(points.size(), 3u);
  for (const Json& point : points) EXPECT_GT(point.at("bytes_per_second").get<double>(), 1e6) << point.dump();
}

}  // namespace
}  // namespace sdm::test
