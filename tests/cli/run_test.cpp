// The main job, end to end, on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "process.h"

namespace sdm::test {
namespace {

using Json = nlohmann::json;

Json run_to_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "run");
  arguments.insert(arguments.end(), {"--device", "cpu", "--format", "json", "--quiet"});
  const Outcome outcome = bench(arguments);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  return Json::parse(outcome.out);
}

std::map<std::string, std::string> digests_of(const Json& report) {
  std::map<std::string, std::string> digests;
  for (const Json& c : report.at("cases")) digests[c.at("id")] = c.at("digests").dump();
  return digests;
}

TEST(Run, SmokeHoldsAndItsResultIsComplete) {
  const Json report = run_to_json({config("smoke"), "--no-timing", "--filter", "^(?!.*dense)"});
  EXPECT_EQ(report.at("run").at("status"), "finished");
  ASSERT_GE(report.at("cases").size(), 5u);
  for (const Json& c : report.at("cases")) {
    EXPECT_EQ(c.at("status"), "ok") << c.dump(1);
    EXPECT_EQ(c.at("variants").size(), 15u);
    for (const Json& check : c.at("checks"))
      EXPECT_TRUE(check.at("status") == "passed" || check.at("status") == "skipped") << check.dump();
    int tensors = 0;
    for (const auto& [stage, of_stage] : c.at("digests").items())
      for (const auto& [tensor, hex] : of_stage.items()) {
        ++tensors;
        EXPECT_EQ(hex.get<std::string>().size(), 32u) << stage << "/" << tensor;
      }
    EXPECT_GT(tensors, 30);
  }
}

TEST(Run, AForwardAloneHoldsUnderEveryCheck) {
  const Json report = run_to_json({config("smoke"), "--filter", "raw_bf16", "--set", "workload.snapshot=none", "--set",
                                   R"(checks=["guards","bank_restored","repeat","oracle","invariance","disturbed"])"});
  const Json& c = report.at("cases").at(0);
  EXPECT_EQ(c.at("status"), "ok") << c.dump(1);
  EXPECT_FALSE(c.at("digests").contains("undo"));
  EXPECT_EQ(c.at("variants").size(), 8u) << "the stages that run";
  for (const Json& check : c.at("checks"))
    EXPECT_EQ(check.at("status"), check.at("name") == "bank_restored" ? "skipped" : "passed") << check.dump();
}

TEST(Run, TimesPassesAndStages) {
  TempFolder folder;
  const Json report = run_to_json({folder.file("tiny.json", kTinyConfig)});
  ASSERT_EQ(report.at("cases").size(), 2u);
  for (const Json& c : report.at("cases")) {
    EXPECT_EQ(c.at("passes").size(), 2u);
    EXPECT_EQ(c.at("stages").size(), 15u);
    for (const Json& pass : c.at("passes")) {
      EXPECT_GT(pass.at("median_us").get<double>(), 0);
      EXPECT_LE(pass.at("q1_us").get<double>(), pass.at("median_us").get<double>());
      EXPECT_LE(pass.at("median_us").get<double>(), pass.at("q3_us").get<double>());
    }
  }
}

TEST(Run, BitsDoNotDependOnThreadsOrOnTheRun) {
  const std::vector<std::string> base = {config("smoke"), "--no-timing", "--no-checks", "--filter", "raw_bf16|fp8_hot"};
  const auto with_threads = [&](const char* count) {
    std::vector<std::string> arguments = base;
    arguments.insert(arguments.end(), {"--threads", count});
    return digests_of(run_to_json(arguments));
  };
  const auto one = with_threads("1");
  EXPECT_EQ(one.size(), 2u);
  EXPECT_EQ(one, with_threads("2"));
  EXPECT_EQ(one, with_threads("1"));
}

TEST(Run, BitsDependOnTheSeed) {
  const std::vector<std::string> base = {config("smoke"), "--no-timing", "--no-checks", "--filter", "raw_bf16"};
  std::vector<std::string> seeded = base;
  seeded.insert(seeded.end(), {"--seed", "12"});
  const auto first = digests_of(run_to_json(base)), second = digests_of(run_to_json(seeded));
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_NE(first.begin()->second, second.begin()->second);
}

TEST(Run, WritesTheFileAndRemovesItsJournal) {
  TempFolder folder;
  const std::string tiny = folder.file("tiny.json", kTinyConfig), result = (folder / "result.json").string();
  const Outcome outcome = bench({"run", tiny, "--device", "cpu", "-o", result});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "") << "with -o FILE nothing belongs on stdout";
  EXPECT_EQ(Json::parse(slurp(result)).at("cases").size(), 2u);
  EXPECT_FALSE(fs::exists(result + ".journal"));

  const Outcome again = bench({"run", tiny, "--device", "cpu", "-o", result});
  EXPECT_EQ(again.code, 2) << "an existing result must not be overwritten";
  EXPECT_NE(again.err.find("--force"), std::string::npos) << again.err;
  EXPECT_EQ(bench({"run", tiny, "--device", "cpu", "-o", result, "--force", "--no-timing"}).code, 0);
}

TEST(Run, StdoutHoldsTheDocumentAlone) {
  TempFolder folder;
  const Outcome outcome = bench({"run", folder.file("tiny.json", kTinyConfig), "--device", "cpu", "--format", "json"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(Json::accept(outcome.out)) << outcome.out;
  EXPECT_NE(outcome.err, "") << "progress goes to stderr";
}

TEST(Run, ColourOnlyWhereAsked) {
  TempFolder folder;
  const std::vector<std::string> arguments = {"run", folder.file("tiny.json", kTinyConfig), "--device", "cpu",
                                              "--no-timing"};
  const auto has_colour = [](const Outcome& outcome) {
    return (outcome.out + outcome.err).find("\x1b[") != std::string::npos;
  };
  EXPECT_FALSE(has_colour(bench(arguments))) << "neither stream is a terminal";
  EXPECT_FALSE(has_colour(bench(arguments, {"NO_COLOR=1"})));
  std::vector<std::string> always = arguments;
  always.insert(always.end(), {"--color", "always"});
  EXPECT_TRUE(has_colour(bench(always)));
}

TEST(Run, DryRunNamesTheCasesAndRunsNone) {
  TempFolder folder;
  const std::string result = (folder / "result.json").string();
  const Outcome outcome = bench({"run", folder.file("tiny.json", kTinyConfig), "--dry-run", "-o", result});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 2) << outcome.out;
  EXPECT_FALSE(fs::exists(result));
}

/// Many cases, each a fraction of a second, so that a signal falls between the first and the last.
std::string long_config(const TempFolder& folder) {
  return folder.file("long.json", R"({"schema": 1, "name": "long",
    "workload": {"kind": "sparse", "streams": 2, "tokens": 128, "chunk": 32, "writes": 8, "reads": 8, "head_dim": 64, "slots": 512},
    "sweep": {"workload.seed": [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40]},
    "checks": ["guards", "oracle", {"repeat": {"runs": 20}}]})");
}

/// Lines of the journal after its header.
std::int64_t finished_cases(const std::string& journal) {
  const std::string text = slurp(journal);
  return std::count(text.begin(), text.end(), '\n') - 1;
}

void expect_saved_after(int signal_number, int code) {
  TempFolder folder;
  const std::string result = (folder / "result.json").string(), journal = result + ".journal";
  Process process({"run", long_config(folder), "--device", "cpu", "--no-timing", "-o", result});
  ASSERT_TRUE(wait_until([&] { return finished_cases(journal) >= 2; }, 60));
  process.signal(signal_number);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.code, code) << outcome.err;
  const Json report = Json::parse(slurp(result));
  EXPECT_EQ(report.at("run").at("status"), "interrupted");
  int ok = 0, not_run = 0;
  for (const Json& c : report.at("cases")) (c.at("status") == "ok" ? ok : not_run)++;
  EXPECT_GE(ok, 2) << "finished cases are kept";
  EXPECT_GE(not_run, 1) << "what did not run is said";
  EXPECT_EQ(report.at("cases").size(), 40u);
  EXPECT_FALSE(fs::exists(journal));
}

TEST(Run, CtrlCSavesWhatIsFinished) { expect_saved_after(SIGINT, 130); }
TEST(Run, TerminationSavesWhatIsFinished) { expect_saved_after(SIGTERM, 143); }

TEST(Run, AKilledRunLeavesAJournalThatReportReads) {
  TempFolder folder;
  const std::string result = (folder / "result.json").string(), journal = result + ".journal";
  Process process({"run", long_config(folder), "--device", "cpu", "--no-timing", "-o", result});
  ASSERT_TRUE(wait_until([&] { return finished_cases(journal) >= 2; }, 60));
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait().code, 128 + SIGKILL);
  EXPECT_FALSE(fs::exists(result));
  const Outcome report = bench({"report", journal, "--format", "json"});
  EXPECT_EQ(report.code, 0) << report.err;
  EXPECT_GE(Json::parse(report.out).at("cases").size(), 2u);
  const Outcome again = bench({"run", config("smoke"), "--device", "cpu", "--no-timing", "-o", result});
  EXPECT_EQ(again.code, 2) << "a leftover journal must not be lost silently";
  EXPECT_NE(again.err.find("journal"), std::string::npos) << again.err;
}

TEST(Run, ACaseThatDoesNotFitIsNotTried) {
  TempFolder folder;
  const Outcome outcome = bench({"run", folder.file("tiny.json", kTinyConfig), "--device", "cpu", "--no-timing",
                                 "--set", "workload.slots=1000000000", "--set", "workload.head_dim=65536", "--set",
                                 "workload.streams=1", "--format", "json"});
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  const Json document = Json::parse(outcome.out);
  for (const Json& c : document.at("cases")) {
    EXPECT_EQ(c.at("status"), "oom");
    EXPECT_NE(c.at("reason"), "");
  }
}

}  // namespace
}  // namespace sdm::test
