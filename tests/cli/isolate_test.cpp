// run --isolate: what befalls one case's process costs that case alone.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "process.h"
#include "tests/support/sanitized.h"

namespace sdm::test {
namespace {

using Json = nlohmann::json;

std::map<std::string, std::string> digests_of(const Json& report) {
  std::map<std::string, std::string> digests;
  for (const Json& c : report.at("cases")) digests[c.at("id")] = c.at("digests").dump();
  return digests;
}

/// Three cases that take a while: the checks repeat many times. A sanitizer slows them by itself.
std::string slow_config(const TempFolder& folder) {
  const std::string runs = kSanitized ? "30" : "300";
  return folder.file("slow.json", R"({"schema": 1, "name": "slow",
    "workload": {"kind": "sparse", "streams": 2, "tokens": 64, "chunk": 32, "writes": 8, "reads": 8, "head_dim": 64, "slots": 512},
    "sweep": {"workload.seed": [1, 2, 3]}, "checks": [{"repeat": {"runs": )" +
                                      runs + "}}]}");
}

/// The one child of a process, 0 while there is none.
pid_t child_of(pid_t parent) {
  const std::string list = slurp("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
  return list.empty() ? 0 : static_cast<pid_t>(std::atoi(list.c_str()));
}

/// Signals the first case's process as soon as it runs, and waits for the run's end.
Outcome run_with_a_blow(const std::vector<std::string>& arguments, int signal_number) {
  Process process(arguments);
  pid_t child = 0;
  EXPECT_TRUE(wait_until([&] { return (child = child_of(process.id())) != 0; }, 30));
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  ::kill(child, signal_number);
  return process.wait();
}

TEST(Isolate, SameResultAsInOneProcess) {
  TempFolder folder;
  const std::vector<std::string> base = {
      "run", folder.file("tiny.json", kTinyConfig), "--device", "cpu", "--format", "json", "--quiet"};
  std::vector<std::string> isolated = base;
  isolated.emplace_back("--isolate");
  const Outcome one = bench(base), many = bench(isolated);
  ASSERT_EQ(one.code, 0) << one.err;
  ASSERT_EQ(many.code, 0) << many.err;
  const Json a = Json::parse(one.out), b = Json::parse(many.out);
  EXPECT_EQ(digests_of(a), digests_of(b));
  EXPECT_EQ(a.at("effective_config"), b.at("effective_config"));
  for (const Json& c : b.at("cases")) {
    EXPECT_EQ(c.at("status"), "ok");
    EXPECT_EQ(c.at("checks").size(), 3u) << "guards, oracle, after_timing";
    EXPECT_EQ(c.at("passes").size(), 2u);
  }
}

TEST(Isolate, EveryCaseOfSmokeComesThrough) {
  const Outcome outcome = bench({"run", config("smoke"), "--device", "cpu", "--no-timing", "--isolate", "--quick",
                                 "--format", "json", "--quiet"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json document = Json::parse(outcome.out);
  for (const Json& c : document.at("cases")) EXPECT_EQ(c.at("status"), "ok") << c.at("reason");
}

// Under a sanitizer by SIGABRT: it catches SIGSEGV, and may hang over one that comes while it is at work itself.
TEST(Isolate, ACrashCostsOneCase) {
  TempFolder folder;
  const std::string result = (folder / "result.json").string();
  const Outcome outcome = run_with_a_blow({"run", slow_config(folder), "--device", "cpu", "--isolate", "-o", result},
                                          kSanitized ? SIGABRT : SIGSEGV);
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  const Json cases = Json::parse(slurp(result)).at("cases");
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[0].at("status"), "error");
  const char* how = kSanitized ? "signal 6" : "signal 11";
  EXPECT_NE(cases[0].at("reason").get<std::string>().find(how), std::string::npos) << cases[0].at("reason");
  EXPECT_EQ(cases[1].at("status"), "ok");
  EXPECT_EQ(cases[2].at("status"), "ok");
  EXPECT_FALSE(fs::exists(result + ".journal"));
}

TEST(Isolate, AHangCostsOneCaseAndItsTimeLimit) {
  TempFolder folder;
  const char* roomy = kSanitized ? "timing.case_timeout_seconds=300" : "timing.case_timeout_seconds=20";
  const Outcome outcome = run_with_a_blow(
      {"run", slow_config(folder), "--device", "cpu", "--isolate", "--format", "json", "--set", roomy, "--no-timing"},
      0);
  EXPECT_EQ(outcome.code, 0) << "within its limit: " << outcome.err;
  const Outcome hung =
      run_with_a_blow({"run", slow_config(folder), "--device", "cpu", "--isolate", "--format", "json", "--set",
                       "timing.case_timeout_seconds=0.5", "--set", "workload.seed=1", "--no-timing"},
                      SIGSTOP);
  EXPECT_EQ(hung.code, 5) << hung.err;
  const Json cases = Json::parse(hung.out).at("cases");
  EXPECT_EQ(cases[0].at("status"), "timeout") << cases[0].dump(1);
  EXPECT_NE(cases[0].at("reason").get<std::string>().find("time limit of 0.5 s"), std::string::npos);
}

TEST(Isolate, CtrlCEndsTheChildToo) {
  TempFolder folder;
  const std::string result = (folder / "result.json").string();
  Process process({"run", slow_config(folder), "--device", "cpu", "--isolate", "-o", result});
  pid_t child = 0;
  ASSERT_TRUE(wait_until([&] { return (child = child_of(process.id())) != 0; }, 30));
  process.signal(SIGINT);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.code, 130) << outcome.err;
  EXPECT_NE(::kill(child, 0), 0) << "the child outlived the run";
  const Json report = Json::parse(slurp(result));
  EXPECT_EQ(report.at("run").at("status"), "interrupted");
  EXPECT_EQ(report.at("cases").size(), 3u);
}

TEST(Isolate, WhatTheChildSaysIsTheReason) {
  TempFolder folder;
  const std::string text = R"({"schema": 1, "name": "replayed", "workload": {"kind": "sparse", "streams": 1,
    "tokens": 4, "chunk": 4, "writes": 2, "reads": 2, "head_dim": 4, "slots": 8,
    "distribution": {"kind": "replay", "file": "/nowhere/absent.safetensors"}}, "checks": ["guards"]})";
  const Outcome outcome =
      bench({"run", folder.file("replayed.json", text), "--device", "cpu", "--isolate", "--format", "json", "--quiet"});
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  const Json c = Json::parse(outcome.out).at("cases")[0];
  EXPECT_EQ(c.at("status"), "error");
  EXPECT_NE(c.at("reason").get<std::string>().find("absent.safetensors"), std::string::npos) << c.at("reason");
}

}  // namespace
}  // namespace sdm::test
