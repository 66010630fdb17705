#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "report/json.h"
#include "tests/support/random_report.h"

namespace sdm {
namespace {

using Json = nlohmann::ordered_json;

template <typename Action>
std::string refusal(Action&& action) {
  try {
    action();
  } catch (const UserError& error) {
    return error.what();
  }
  return "accepted";
}

std::vector<std::string> keys(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

/// One case with one of everything.
Report small_report() {
  Report report;
  report.tool.version = "0.1.0";
  report.run.id = "r1";
  report.run.status = "finished";
  CaseResult one;
  one.id = "smoke/chunk=32";
  one.name = "smoke";
  one.status = CaseStatus::ok;
  one.variants["gather"] = {"rows", "8 warps", "exact"};
  one.checks = {{"replay", CheckResult::Status::passed, "13 stages", ""}};
  one.digests["gather"]["retrieved"] = "99aa06d3014798d86001c324468d497f";
  one.passes = {{"forward", "cold", sample_stats({3, 1, 2}, 1, true), 4.5, 1e9, 2e9, 3e9}};
  one.stages = {{"gather", "forward", "cold", 8, sample_stats({1, 2}, 0, true), 1e6, 2e6, 1e12, 33.5}};
  one.peak_memory_bytes = std::numeric_limits<std::uint64_t>::max();
  one.facts = WorkloadFacts{.write_entries = std::int64_t{1} << 60};
  report.cases = {one};
  return report;
}

TEST(ReportJson, RoundTripsRandomReports) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomReport random(seed);
  for (int round = 0; round < 300; ++round) {
    const Report report = random.make();
    const std::string text = to_json(report);
    const Report back = report_from_json(text, "result.json");
    ASSERT_TRUE(back == report) << text;
    ASSERT_EQ(to_json(back), text);
  }
}

TEST(ReportJson, RoundTripsCasesAndJournals) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomReport random(seed);
  for (int round = 0; round < 100; ++round) {
    Report report = random.make();
    std::vector<std::string> lines = {journal_header(report)};
    for (const CaseResult& one : report.cases) {
      lines.push_back(case_to_json_line(one, report.run.id));
      ASSERT_EQ(lines.back().find('\n'), std::string::npos);
      ASSERT_TRUE(case_from_json_line(lines.back(), "line") == one);
    }
    report.run.status = "interrupted";
    ASSERT_TRUE(report_from_journal(lines, "x.journal") == report);
    lines.push_back(std::string(64, '\0'));
    ASSERT_TRUE(report_from_journal(lines, "x.journal") == report);
  }
}

TEST(ReportJson, JournalsNameTheBadLine) {
  const Report report = small_report();
  const std::string header = journal_header(report), one = case_to_json_line(report.cases[0], "r1");
  const auto read = [](std::vector<std::string> lines) {
    return refusal([&] { report_from_journal(lines, "x.journal"); });
  };
  EXPECT_EQ(read({header, one, one}), "accepted");
  EXPECT_EQ(read({header, one.substr(0, 40)}), "accepted");
  EXPECT_EQ(read({}), "x.journal holds no results: its first line is missing");
  EXPECT_NE(read({header, one.substr(0, 40), one}).find("x.journal line 2 is not valid JSON"), std::string::npos);
  EXPECT_EQ(read({header, R"({"schema":1})"}), "x.journal line 2: id is missing");
}

TEST(ReportJson, HasTheKeysOfTheSpecification) {
  const Json json = Json::parse(to_json(small_report()));
  const std::vector<std::string> top = {"schema",           "tool", "run", "environment", "devices", "roof",
                                        "effective_config", "cases"};
  EXPECT_EQ(keys(json), top);
  for (const char* key : {"id", "started_at", "finished_at", "argv", "status"}) EXPECT_TRUE(json["run"].contains(key));
  const Json& one = json["cases"][0];
  for (const char* key : {"id", "name", "params", "status", "reason", "variants", "checks", "digests", "passes",
                          "stages", "peak_memory_bytes", "workload_facts"})
    EXPECT_TRUE(one.contains(key)) << key;
  EXPECT_EQ(one["variants"]["gather"]["name"], "rows");
  EXPECT_EQ(one["variants"]["gather"]["launch"], "8 warps");
  EXPECT_EQ(keys(one["checks"][0]), (std::vector<std::string>{"name", "status", "detail", "rerun"}));
  for (const char* key : {"name", "pass", "calls", "median_us", "q1_us", "q3_us", "min_us", "p95_us", "samples",
                          "bytes_moved", "bytes_per_second", "roof_percent"})
    EXPECT_TRUE(one["stages"][0].contains(key)) << key;
  EXPECT_EQ(one["passes"][0]["median_us"], 2.0);
  EXPECT_EQ(one["passes"][0]["samples"], (Json{3.0, 1.0, 2.0}));
  EXPECT_EQ(one["peak_memory_bytes"], "18446744073709551615");
  EXPECT_EQ(one["workload_facts"]["write_entries"], "1152921504606846976");
  EXPECT_TRUE(one["reason"].is_null());
  EXPECT_TRUE(one["wall_seconds"].is_null());
  EXPECT_TRUE(json["effective_config"].is_null());
}

TEST(ReportJson, MissingIsNullAndNanNeverWritten) {
  Report report = small_report();
  report.cases[0].passes[0].time = {};
  report.cases[0].passes[0].flops = std::numeric_limits<double>::quiet_NaN();
  report.cases[0].stages[0].time.samples_us[1] = std::numeric_limits<double>::infinity();
  report.cases[0].wall_seconds = std::numeric_limits<double>::infinity();
  report.run.argv = {"sdm-bench", "caf\xe9"};
  const std::string text = to_json(report);
  EXPECT_EQ(text.find("nan"), std::string::npos);
  EXPECT_EQ(text.find("inf"), std::string::npos);
  const Json json = Json::parse(text);
  EXPECT_TRUE(json["cases"][0]["passes"][0]["median_us"].is_null());
  EXPECT_TRUE(json["cases"][0]["passes"][0]["flops"].is_null());
  EXPECT_TRUE(json["cases"][0]["stages"][0]["samples"][1].is_null());
  EXPECT_TRUE(json["cases"][0]["wall_seconds"].is_null());
  EXPECT_EQ(json["run"]["argv"][1], "caf\xEF\xBF\xBD");
  EXPECT_EQ(report_from_json(text, "f").cases[0].passes[0].flops, std::nullopt);
}

/// Files from before there was the field are read, too.
TEST(ReportJson, HostTimeOfAStepIsWrittenWhereThereIsOne) {
  Report report = small_report();
  EXPECT_EQ(to_json(report).find("host_us_per_step"), std::string::npos);
  report.cases[0].passes[0].host_us_per_step = 1.25;
  const std::string text = to_json(report);
  EXPECT_EQ(Json::parse(text)["cases"][0]["passes"][0]["host_us_per_step"], 1.25);
  EXPECT_TRUE(report_from_json(text, "f") == report);
}

TEST(ReportJson, RefusesWithFileAndPath) {
  const Json good = Json::parse(to_json(small_report()));
  const auto edited = [&](const char* pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return refusal([&] { report_from_json(json.dump(), "result.json"); });
  };
  EXPECT_EQ(edited("/more", Json{1, 2}), "accepted");
  EXPECT_EQ(edited("/cases/0/more", 1), "accepted");
  EXPECT_EQ(edited("/schema", 2), "result.json: schema is 2; this build reads schema 1");
  EXPECT_EQ(edited("/schema", "1"), "result.json: schema must be an integer, but is \"1\"");
  EXPECT_EQ(
      edited("/cases/0/status", "okay"),
      "result.json: cases[0].status must be one of ok, failed, skipped, oom, timeout, error, not_run, but is \"okay\"");
  EXPECT_EQ(edited("/cases/0/stages/0/calls", 1.5),
            "result.json: cases[0].stages[0].calls must be an integer, but is 1.5");
  EXPECT_NE(edited("/cases/0/stages/0/calls", 3'000'000'000).find("an integer in [-2147483648, 2147483647]"),
            std::string::npos);
  EXPECT_NE(edited("/cases/0/stages/0/calls", -3'000'000'000).find("an integer in"), std::string::npos);
  EXPECT_EQ(edited("/cases/0/stages", Json::object()), "result.json: cases[0].stages must be an array, but is object");
  EXPECT_EQ(edited("/cases/0/stages/0/median_us", nullptr),
            "result.json: cases[0].stages[0].median_us must be a number, as there are samples, but is null");
  EXPECT_NE(edited("/cases/0/peak_memory_bytes", 5).find("cases[0].peak_memory_bytes must be a non-negative 64-bit"),
            std::string::npos);
  EXPECT_NE(edited("/cases/0/peak_memory_bytes", "-5").find("non-negative"), std::string::npos);
  EXPECT_NE(edited("/cases/0/workload_facts/write_entries", "12x").find("64-bit integer as a string"),
            std::string::npos);
  EXPECT_EQ(refusal([] { report_from_json("{", "r.json"); }).substr(0, 24), "r.json is not valid JSON");
  EXPECT_EQ(refusal([] { report_from_json("[]", "r.json"); }), "r.json: the document must be an object, but is array");
  EXPECT_NE(refusal([] { report_from_json(R"({"schema": 1e999})", "r.json"); }).find("out of range"),
            std::string::npos);
}

/// Every field is demanded: taking away any one key is noticed, and named.
TEST(ReportJson, MissesEveryField) {
  Report report = small_report();
  report.devices.resize(1);
  report.devices[0].kind = "cpu";
  report.roof = {{"copy", 0, 1.0}};
  const Json good = Json::parse(to_json(report));
  int tried = 0;
  const std::vector<std::string> free_form = {"params", "environment", "geometry", "variants", "digests"};
  const auto visit = [&](const auto& self, const Json& node, const std::string& pointer,
                         const std::string& path) -> void {
    for (const auto& [key, value] : node.items()) {
      const std::string here = pointer + "/" + key;
      const std::string name = node.is_array() ? path + "[" + key + "]" : path.empty() ? key : path + "." + key;
      const bool inside_free =
          std::find(free_form.begin(), free_form.end(), pointer.substr(pointer.rfind('/') + 1)) != free_form.end();
      if (node.is_object() && !inside_free && pointer.find("/digests") == std::string::npos) {
        Json cut = good;
        cut[Json::json_pointer(pointer)].erase(key);
        EXPECT_EQ(refusal([&] { report_from_json(cut.dump(), "f"); }), "f: " + name + " is missing");
        ++tried;
      }
      if (value.is_structured()) self(self, value, here, name);
    }
  };
  visit(visit, good, "", "");
  EXPECT_GT(tried, 90);
}

}  // namespace
}  // namespace sdm
