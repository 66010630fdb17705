// run --plant: every fault of the table is noticed by the check that claims it, in the executable itself.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "check/planted_fault.h"
#include "process.h"

namespace sdm::test {
namespace {

using Json = nlohmann::json;

/// The one check of the planted config's case of that name.
Json run_check_of(std::string_view check, std::string_view fault, int& code) {
  std::vector<std::string> words = {
      "run",  config("planted"), "--filter", fmt::format("/{}$", check), "--device", "cpu", "--no-timing", "--format",
      "json", "--quiet"};
  if (!fault.empty()) words.insert(words.end(), {"--plant", std::string(fault)});
  const Outcome outcome = bench(words);
  code = outcome.code;
  EXPECT_FALSE(outcome.out.empty()) << outcome.err;
  return Json::parse(outcome.out).at("cases").at(0).at("checks").at(0);
}

bool is_fatal(const PlantedFault::Kind& kind) { return kind.check == PlantedFault::kIsolate; }

TEST(Plant, EveryFaultIsNoticedByTheCheckThatClaimsIt) {
  for (const PlantedFault::Kind& kind : PlantedFault::all()) {
    if (is_fatal(kind)) continue;
    SCOPED_TRACE(std::string(kind.name));
    int code = -1;
    const Json check = run_check_of(kind.check, kind.name, code);
    EXPECT_EQ(check.at("name"), std::string(kind.check));
    EXPECT_EQ(check.at("status") == "failed", !kind.needs_gpu) << check.dump();
    EXPECT_EQ(code, kind.needs_gpu ? 0 : 1);
  }
}

TEST(Plant, HonestStagesPassTheSameChecks) {
  std::set<std::string_view> checks;
  for (const PlantedFault::Kind& kind : PlantedFault::all())
    if (!is_fatal(kind)) checks.insert(kind.check);
  for (const std::string_view name : checks) {
    int code = -1;
    const Json check = run_check_of(name, "", code);
    EXPECT_TRUE(check.at("status") == "passed" || check.at("status") == "skipped") << check.dump();
    EXPECT_EQ(code, 0);
  }
}

TEST(Plant, LockstepNamesTheFirstStageAndStep) {
  int code = -1;
  EXPECT_NE(
      run_check_of("replay", "one_bit", code).at("detail").get<std::string>().find("after mix of step 1 in reading"),
      std::string::npos);
  EXPECT_NE(run_check_of("replay", "swapped_order", code).at("detail").get<std::string>().find("after write of step 0"),
            std::string::npos);
}

/// Three cases, isolated, the middle one with the fault; on a GPU: scripts/planted_faults.py.
Json run_isolated_with(const char* fault, int& code) {
  const Outcome outcome = bench({"run", config("planted"), "--filter", "/(replay|guards|poison)$", "--device", "cpu",
                                 "--isolate", "--plant", fault, "--plant-in", "/guards$", "--set",
                                 "timing.case_timeout_seconds=2", "--no-timing", "--format", "json", "--quiet"});
  code = outcome.code;
  EXPECT_FALSE(outcome.out.empty()) << outcome.err;
  return Json::parse(outcome.out).at("cases");
}

TEST(Plant, AFatalFaultCostsItsOwnCaseIsolated) {
  for (const PlantedFault::Kind& kind : PlantedFault::all()) {
    if (!is_fatal(kind)) continue;
    SCOPED_TRACE(std::string(kind.name));
    int code = -1;
    const Json cases = run_isolated_with(std::string(kind.name).c_str(), code);
    EXPECT_EQ(code, 5);
    ASSERT_EQ(cases.size(), 3u);
    EXPECT_EQ(cases[0].at("status"), "ok") << cases[0].at("reason");
    EXPECT_EQ(cases[1].at("status"), kind.name == "never_ends" ? "timeout" : "error") << cases[1].at("reason");
    EXPECT_EQ(cases[2].at("status"), "ok") << cases[2].at("reason");
  }
}

TEST(Plant, OnlyMatchingCasesAreSpoiled) {
  const Outcome outcome =
      bench({"run", config("planted"), "--filter", "/(guards|repeat)$", "--device", "cpu", "--plant", "corrupted_later",
             "--plant-in", "/repeat$", "--no-timing", "--format", "json", "--quiet"});
  EXPECT_EQ(outcome.code, 1) << outcome.err;
  const Json document = Json::parse(outcome.out);
  for (const Json& c : document.at("cases"))
    EXPECT_EQ(c.at("status"), c.at("name") == "repeat" ? "failed" : "ok") << c.dump(1);
  EXPECT_EQ(bench({"run", config("planted"), "--plant-in", "x"}).code, 2) << "without --plant";
  const Outcome broken = bench({"run", config("planted"), "--plant", "crash", "--plant-in", "("});
  EXPECT_EQ(broken.code, 2);
  EXPECT_NE(broken.err.find("--plant-in '('"), std::string::npos) << broken.err;
}

TEST(Plant, UnknownNamesAreRefusedAndTheOptionIsHidden) {
  const Outcome outcome = bench({"run", config("planted"), "--plant", "extra_atomics"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("extra_atomic"), std::string::npos) << outcome.err;
  EXPECT_EQ(bench({"run", "--help"}).out.find("--plant"), std::string::npos);
}

TEST(Plant, TheDocumentListsThem) {
  std::string table = "| fault | stage | what is wrong | noticed by | |\n|---|---|---|---|---|\n";
  for (const PlantedFault::Kind& kind : PlantedFault::all())
    table += fmt::format("| `{}` | {} | {} | `{}` | {} |\n", kind.name, kind.stage, kind.what, kind.check,
                         kind.needs_gpu ? "GPU" : "");
  const std::string document = slurp(SDM_SOURCE_DIR "/docs/planted_faults.md");
  EXPECT_NE(document.find(table), std::string::npos) << "docs/planted_faults.md must hold this table:\n" << table;
}

}  // namespace
}  // namespace sdm::test
