#include "report/html.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "report/json.h"
#include "report/render.h"
#include "report/sample_stats.h"
#include "tests/support/random_report.h"

namespace sdm {
namespace {

std::size_t count_of(const std::string& text, std::string_view part) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

/// Elements open and close in order; void elements excepted. Quotes in tags come in pairs.
bool balanced(const std::string& html, std::string& wrong) {
  std::vector<std::string> open;
  std::size_t at = html.find("<html");
  while ((at = html.find('<', at)) != std::string::npos) {
    const std::size_t end = html.find('>', at);
    if (end == std::string::npos) return wrong = "a tag without end", false;
    const std::string tag = html.substr(at + 1, end - at - 1);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return wrong = tag, false;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    at = end;
    if (name == "meta" || name == "br" || tag.back() == '/') continue;
    if (tag.front() != '/') {
      open.push_back(name);
    } else if (open.empty() || "/" + open.back() != tag) {
      return wrong = tag, false;
    } else {
      open.pop_back();
    }
  }
  return open.empty();
}

CaseResult swept(const std::string& id, const std::string& chunk, double us, const std::string& seed = "1") {
  CaseResult out;
  out.id = id;
  out.params = {{"chunk", chunk}, {"seed", seed}, {"gate", "token"}};
  out.status = CaseStatus::ok;
  out.passes = {{"forward", "cold", sample_stats({us, us * 1.01, us * 0.99}, 0, true), {}, {}, {}, {}}};
  out.stages = {{"gather", "forward", "cold", 4, sample_stats({us / 2}, 0, true), 1e6, {}, 1e10, 61.8}};
  return out;
}

TEST(Html, IsOneBalancedPageThatFetchesNothing) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomReport random(seed);
  for (int round = 0; round < 60; ++round) {
    const std::string page = render(random.make(), "html");
    std::string wrong;
    ASSERT_TRUE(balanced(page, wrong)) << wrong;
    for (const char* outside : {"http:", "https:", "src=", "@import", "url(", "<script"})
      ASSERT_EQ(page.find(outside), std::string::npos) << outside;
    for (const char* bad : {"nan", "inf%", "width:-", ">inf"}) ASSERT_EQ(page.find(bad), std::string::npos) << bad;
  }
}

TEST(Html, ShowsBarsRoofsPlotsAndVerdicts) {
  Report report;
  report.cases = {swept("s/chunk=32", "32", 100), swept("s/chunk=64", "64", 150)};
  report.cases[0].checks = {{"replay", CheckResult::Status::passed, "bits equal", ""}};
  report.cases[1].checks = {{"replay", CheckResult::Status::failed, "first <difference>", "sdm-bench run x"}};
  report.cases[1].digests["gather"]["inter"] = "0123";
  report.cases[1].status = CaseStatus::failed;
  report.devices = {{.kind = "cuda", .name = "NVIDIA H200", .uuid = "GPU-1"}};
  const std::string page = render(report, "html");
  EXPECT_EQ(count_of(page, "<svg class=\"box\""), 2u);
  EXPECT_NE(page.find("62 %"), std::string::npos);
  EXPECT_NE(page.find("width:61.8%"), std::string::npos);
  EXPECT_NE(page.find("<td class=\"mark yes\" title=\"bits equal\">✓</td>"), std::string::npos);
  EXPECT_NE(page.find("title=\"first &lt;difference&gt;\">✗"), std::string::npos);
  EXPECT_NE(page.find("NVIDIA H200"), std::string::npos);
  EXPECT_EQ(count_of(page, "<polyline"), 2u);  // forward, gather
}

TEST(Html, SweepsAreCasesThatDifferInOneNumber) {
  std::vector<CaseResult> cases = {swept("s/chunk=64", "64", 3), swept("s/chunk=32", "32", 2),
                                   swept("s/chunk=128", "128", 5), swept("other", "256", 9, "2"),
                                   swept("late/chunk=32", "32", 1)};
  cases.push_back(swept("s/chunk=512", "512", 1));
  cases.back().passes.clear();  // not timed
  const auto sweeps = html::find_sweeps(cases);
  ASSERT_EQ(sweeps.size(), 1u);
  EXPECT_EQ(sweeps[0].param, "chunk");
  EXPECT_EQ(sweeps[0].where, "s");
  ASSERT_EQ(sweeps[0].points.size(), 3u);
  EXPECT_EQ(sweeps[0].points[0].x, 32);
  EXPECT_EQ(sweeps[0].points[2].result, &cases[2]);
}

TEST(Html, OddTimesDrawSomething) {
  for (const double us : {0.0, 1e-9, 1e12}) {
    Report report;
    report.cases = {swept("a/chunk=1", "1", us), swept("a/chunk=2", "2", us)};
    const std::string page = render(report, "html");
    EXPECT_EQ(page.find("nan"), std::string::npos) << us;
    EXPECT_EQ(page.find("inf"), std::string::npos) << us;
  }
}

/// Renders in headless Chromium, wide and as narrow as a phone: the picture must be there and must not be blank.
TEST(Html, ChromiumRendersIt) {
  if (std::system("command -v chromium > /dev/null 2>&1") != 0) GTEST_SKIP() << "no chromium here";
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("sdm_html_" + std::to_string(getpid()));
  fs::create_directories(folder);
  Report report;
  report.cases = {swept("s/chunk=32", "32", 100), swept("s/chunk=64", "64", 150)};
  std::ofstream(folder / "r.html") << render(report, "html");
  for (const char* size : {"1200,1600", "390,1600"}) {
    const fs::path picture = folder / "r.png";
    fs::remove(picture);
    const std::string command = fmt::format(
        "timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir={0} --screenshot={1} "
        "--window-size={2} file://{3} > /dev/null 2>&1",
        (folder / "profile").string(), picture.string(), size, (folder / "r.html").string());
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
    ASSERT_TRUE(fs::exists(picture));
    EXPECT_GT(fs::file_size(picture), 20'000u);  // a blank page compresses to a few kilobytes
  }
  fs::remove_all(folder);
}

TEST(Bencher, NameMeasureAndBounds) {
  Report report;
  report.cases = {swept("a", "1", 100)};
  report.cases[0].stages.push_back({"mix", "forward", "cold", 1, sample_stats({}, 0, false), {}, {}, {}, {}});
  const auto json = nlohmann::json::parse(render(report, "bmf"));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json["a/forward/cold"]["latency"]["value"], 100'000.0);
  EXPECT_EQ(json["a/forward/cold"]["latency"]["lower_value"], 99'500.0);
  EXPECT_EQ(json["a/forward/cold"]["latency"]["upper_value"], 100'500.0);
  EXPECT_EQ(json["a/forward/gather/cold"]["bytes-per-second"]["value"], 1e10);
}

/// The published schema of the format: name -> measure -> {value, lower_value?, upper_value?}, all numbers.
TEST(Bencher, AnyReportFollowsTheSchema) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomReport random(seed);
  for (int round = 0; round < 60; ++round) {
    const auto json = nlohmann::json::parse(render(random.make(), "bmf"));
    ASSERT_TRUE(json.is_object());
    for (const auto& measures : json)
      for (const auto& metric : measures) {
        ASSERT_TRUE(metric.at("value").is_number());
        for (const auto& number : metric) ASSERT_TRUE(number.is_number());
      }
  }
}

/// What google-benchmark's tools/gbench/report.py does with two files: selects iterations, matches them by name, scales
/// by the unit, divides times. Written from its documentation; every field that it reads must be there.
TEST(Gbench, IsReadAsItsCompareToolReads) {
  const auto load = [](double us) {
    Report report;
    report.cases = {swept("a", "1", us), swept("b", "1", us)};
    report.cases[1].status = CaseStatus::failed;
    return nlohmann::json::parse(render(report, "gbench"));
  };
  const auto base = load(100), now = load(150);
  ASSERT_TRUE(base.at("context").at("date").is_string());
  int compared = 0;
  for (const auto& old_row : base.at("benchmarks")) {
    ASSERT_TRUE(old_row.at("name").is_string());
    if (old_row.contains("error_occurred") && old_row["error_occurred"].get<bool>()) continue;
    ASSERT_EQ(old_row.at("run_type"), "iteration");
    ASSERT_EQ(old_row.at("repetitions"), 1);
    ASSERT_TRUE(old_row.at("run_name").is_string());
    for (const auto& new_row : now.at("benchmarks")) {
      if (new_row.at("name") != old_row.at("name")) continue;
      ASSERT_EQ(new_row.at("time_unit"), old_row.at("time_unit"));
      EXPECT_NEAR(new_row.at("real_time").get<double>() / old_row.at("real_time").get<double>(), 1.5, 1e-9);
      EXPECT_NEAR(new_row.at("cpu_time").get<double>() / old_row.at("cpu_time").get<double>(), 1.5, 1e-9);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 4);
}

}  // namespace
}  // namespace sdm
