#include "report/render.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>

#include "base/error.h"
#include "base/text.h"
#include "report/json.h"
#include "report/layout.h"
#include "tests/support/random_report.h"

namespace sdm {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

/// A reader of RFC 4180, independent of the writer.
std::vector<std::vector<std::string>> parse_csv(const std::string& text) {
  std::vector<std::vector<std::string>> records(1, std::vector<std::string>(1));
  bool inside = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    std::string& field = records.back().back();
    const char c = text[i];
    if (inside && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      field += text[++i];
    else if (c == '"')
      inside = !inside;
    else if (!inside && c == ',')
      records.back().emplace_back();
    else if (!inside && c == '\r' && text[i + 1] == '\n')
      records.emplace_back(1), ++i;
    else
      field += c;
  }
  EXPECT_FALSE(inside);
  EXPECT_EQ(records.back(), std::vector<std::string>(1));  // after the last line break
  records.pop_back();
  return records;
}

/// True if every element that opens closes again, in order, and no markup character stands bare in a value.
bool well_formed(const std::string& xml) {
  std::vector<std::string> open;
  std::size_t at = xml.find("?>") + 2;
  while ((at = xml.find('<', at)) != std::string::npos) {
    const std::size_t end = xml.find('>', at);
    if (end == std::string::npos) return false;
    const std::string tag = xml.substr(at + 1, end - at - 1);
    if (tag.find('<') != std::string::npos || std::count(tag.begin(), tag.end(), '"') % 2 != 0) return false;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.front() == '/') {
      if (open.empty() || "/" + open.back() != tag) return false;
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end;
  }
  return open.empty();
}

CaseResult timed_case() {
  CaseResult one;
  one.id = "smoke/chunk=32";
  one.name = "smoke";
  one.status = CaseStatus::failed;
  one.reason = "1 of 2 checks failed";
  one.variants["gather"] = {"rows", "8 warps", "exact"};
  one.variants["mix"] = {"tensor", "", "repeatable"};
  one.passes = {{"forward", "cold", sample_stats({3000, 1000, 2000}, 1, true), 4.5, 1e9, 2e9, 3e12}};
  one.stages = {{"gather", "forward", "cold", 8, sample_stats({1, 2}, 0, true), 1e6, 2e6, 1e12, 33.5},
                {"mix", "forward", "cold", 8, sample_stats({}, 0, false), {}, {}, {}, {}}};
  one.checks = {{"guards", CheckResult::Status::passed, "31 buffers intact", ""},
                {"replay", CheckResult::Status::failed, "first difference: bank[1, 2]", "sdm-bench run x.json"}};
  one.wall_seconds = 2.5;
  return one;
}

Report report_of(std::vector<CaseResult> cases) {
  Report report;
  report.tool.version = "0.1.0";
  report.run.status = "finished";
  report.cases = std::move(cases);
  return report;
}

TEST(Render, TableIsAligned) {
  EXPECT_EQ(
      render(report_of({timed_case()}), "table"),
      "sdm-bench 0.1.0\n"
      "\n"
      "✗ smoke/chunk=32  failed: 1 of 2 checks failed\n"
      "  the host launches forward (cold) in 4.500 µs · wall time 2.500 s\n"
      "\n"
      "  stage           calls  median µs         q1         q3        min      GB/s  % roof  variant\n"
      "  ────────────────────────────────────────────────────────────────────────────────────────────────────────\n"
      "  forward (cold)           2,000.0    1,500.0    2,500.0    1,000.0   3,000.0\n"
      "    gather            8        1.5        1.2        1.8        1.0   1,000.0    33.5  rows\n"
      "    mix               8          –          –          –          –                    tensor (repeatable)\n"
      "  ! samples below the clock threshold: forward (cold) 1 of 3\n"
      "\n"
      "  ✓ guards  31 buffers intact\n"
      "  ✗ replay  first difference: bank[1, 2]\n"
      "            rerun: sdm-bench run x.json\n"
      "\n"
      "1 case: 0 passed, 1 failed, 0 skipped · 2.500 s\n");
}

TEST(Render, TableOfNothing) {
  EXPECT_EQ(render(report_of({}), "table"), "sdm-bench 0.1.0\n\n0 cases: 0 passed, 0 failed, 0 skipped\n");
  CaseResult bare;
  bare.id = "x";
  bare.status = CaseStatus::oom;
  bare.reason = "needs 2 TiB";
  const std::string table = render(report_of({bare}), "table");
  EXPECT_NE(table.find("✗ x  oom: needs 2 TiB\n\n1 case: 0 passed, 0 failed, 0 skipped, 1 could not run\n"),
            std::string::npos)
      << table;
}

TEST(Render, TimesChooseTheirUnit) {
  CaseResult slow = timed_case();
  slow.passes[0].time = sample_stats({250'000}, 0, true);
  EXPECT_NE(render(report_of({slow}), "table").find("median ms"), std::string::npos);
  EXPECT_NE(render(report_of({slow}), "table").find("250.000"), std::string::npos);
  slow.passes[0].time = sample_stats({250e6}, 0, true);
  EXPECT_NE(render(report_of({slow}), "table").find("median s "), std::string::npos);
}

TEST(Render, LaunchesAreToldWhereThereAreAny) {
  CaseResult one = timed_case();
  one.launch = "fused: forward 8 teams";
  one.passes[0].host_us = 95.2, one.passes[0].host_us_per_step = 1.4875;
  for (const char* format : {"table", "md", "html"}) {
    const std::string text = render(report_of({one}), format);
    EXPECT_NE(text.find("launched as fused · the host launches forward (cold) in 95.20 µs, 1.488 µs a step · "),
              std::string::npos)
        << text;
  }
  EXPECT_NE(render(report_of({one}), "csv").find(",95.2,1.4875,"), std::string::npos);
  one.passes[0].host_us_per_step.reset();
  EXPECT_NE(render(report_of({one}), "md").find("forward (cold) in 95.20 µs · "), std::string::npos);
  one.launch = "host", one.passes[0].l2 = "host";
  EXPECT_EQ(render(report_of({one}), "md").find("launche"), std::string::npos);
}

TEST(Render, PrepareIsToldAsAShareOfTheForwardUnderTheSameCaches) {
  CaseResult one = timed_case();
  one.passes = {{.name = "forward", .l2 = "cold", .time = sample_stats({2000}, 0, true)},
                {.name = "forward", .l2 = "hot", .time = sample_stats({1000}, 0, true)},
                {.name = "backward", .l2 = "hot", .time = sample_stats({400}, 0, true)},
                {.name = "prepare", .l2 = "hot", .time = sample_stats({143}, 0, true)}};
  for (const char* format : {"table", "md", "html"}) {
    const std::string text = render(report_of({one}), format);
    EXPECT_NE(text.find("prepare is 14.3 % of forward (hot)"), std::string::npos) << text;
    EXPECT_EQ(text.find("of forward (cold)"), std::string::npos) << text;
  }
  one.passes[1].time = sample_stats({0}, 0, true);
  EXPECT_EQ(render(report_of({one}), "table").find("prepare is"), std::string::npos);
}

TEST(Render, ColourIsOnlyAddedWhenAsked) {
  const Report report = report_of({timed_case()});
  const std::string plain = render(report, "table"), coloured = render(report, "table", {.color = true});
  EXPECT_EQ(plain.find('\x1b'), std::string::npos);
  EXPECT_NE(coloured.find("\x1b[31m✗\x1b[0m"), std::string::npos);
  EXPECT_EQ(std::regex_replace(coloured, std::regex("\x1b\\[[0-9]+m"), ""), plain);
}

TEST(Render, EveryFormatTakesEveryReport) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomReport random(seed);
  for (int round = 0; round < 150; ++round) {
    Report report = random.make();
    if (!report.cases.empty()) report.cases[0].id += "\xff\xfe\x9b";  // no UTF-8
    for (const ReportFormat& format : report_formats()) {
      const std::string text = render(report, format.name);
      if (format.name == "jsonl" && report.cases.empty()) continue;
      ASSERT_FALSE(text.empty()) << format.name;
      ASSERT_EQ(text.back(), '\n') << format.name;
      if (format.name == "csv") continue;  // fields are kept as they are, quoted
      for (const char c : text) ASSERT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\n') << format.name;
      ASSERT_EQ(valid_utf8(text), text) << format.name;
    }
  }
}

TEST(Render, CsvQuotesAndKeepsEveryField) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomReport random(seed);
  for (int round = 0; round < 100; ++round) {
    const Report report = random.make();
    const auto records = parse_csv(render(report, "csv"));
    std::size_t at = 1;
    for (const auto& record : records) ASSERT_EQ(record.size(), records[0].size());
    for (const CaseResult& one : report.cases) {
      const std::size_t rows = std::max<std::size_t>(1, one.passes.size() + one.stages.size());
      for (std::size_t i = 0; i < rows; ++i, ++at) {
        ASSERT_LT(at, records.size());
        for (std::size_t column = 0; column < records[0].size(); ++column) {
          const std::string& header = records[0][column];
          if (header == "case" || header == "reason") {
            ASSERT_EQ(records[at][column], header == "case" ? one.id : one.reason);
          }
          if (!header.starts_with("param.")) continue;
          const auto found = one.params.find(header.substr(6));
          ASSERT_EQ(records[at][column], found == one.params.end() ? "" : found->second);
        }
      }
    }
    ASSERT_EQ(at, records.size());
  }
}

TEST(Render, CsvValues) {
  CaseResult one = timed_case();
  one.reason = "a \"b\", c\r\nd";
  one.passes[0].flops = std::numeric_limits<double>::quiet_NaN();
  const std::string csv = render(report_of({one}), "csv");
  EXPECT_NE(csv.find("\"a \"\"b\"\", c\r\nd\""), std::string::npos);
  const auto records = parse_csv(csv);
  ASSERT_EQ(records.size(), 4u);
  const auto value = [&](std::size_t row, const std::string& header) {
    const auto column = std::find(records[0].begin(), records[0].end(), header) - records[0].begin();
    return records[row].at(static_cast<std::size_t>(column));
  };
  EXPECT_EQ(value(1, "kind"), "pass");
  EXPECT_EQ(value(1, "median_us"), "2000");
  EXPECT_EQ(value(1, "flops"), "");
  EXPECT_EQ(value(1, "throttled_samples"), "1");
  EXPECT_EQ(value(2, "stage"), "gather");
  EXPECT_EQ(value(2, "roof_percent"), "33.5");
  EXPECT_EQ(value(3, "median_us"), "");
  EXPECT_EQ(value(3, "samples"), "0");
  EXPECT_EQ(value(3, "guarantee"), "repeatable");
}

TEST(Render, MarkdownTablesAreRectangular) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomReport random(seed);
  const std::regex cell_border("(^|[^\\\\])\\|");
  for (int round = 0; round < 100; ++round) {
    long borders = 0;
    for (const std::string& line : lines_of(render(random.make(), "md"))) {
      // An escaped backslash before a border would hide it from the expression below.
      const std::string plain = std::regex_replace(line, std::regex(R"(\\\\)"), "");
      const long found = std::distance(std::sregex_iterator(plain.begin(), plain.end(), cell_border), {});
      if (!plain.starts_with("|")) {
        borders = 0;
        continue;
      }
      if (borders > 0) {
        ASSERT_EQ(found, borders) << line;
      }
      borders = found;
    }
  }
}

TEST(Render, JunitIsWellFormedAndCounts) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  RandomReport random(seed);
  for (int round = 0; round < 100; ++round) {
    const Report report = random.make();
    const std::string xml = render(report, "junit");
    ASSERT_TRUE(well_formed(xml)) << xml;
    std::size_t tests = 0;
    for (const CaseResult& one : report.cases) tests += 1 + one.checks.size();
    ASSERT_NE(xml.find(fmt::format("<testsuites tests=\"{}\"", tests)), std::string::npos);
  }
  EXPECT_FALSE(well_formed("<?xml?><a><b></a>"));
  const std::string xml = render(report_of({timed_case()}), "junit");
  EXPECT_NE(xml.find("tests=\"3\" failures=\"1\" errors=\"0\" skipped=\"0\""), std::string::npos);
  EXPECT_NE(xml.find("<failure type=\"failed\" message=\"first difference: bank[1, 2]\">rerun: sdm-bench run x.json"),
            std::string::npos);
}

TEST(Render, JunitFailsACaseThatNoCheckExplains) {
  CaseResult one = timed_case();
  one.checks.clear();
  EXPECT_NE(render(report_of({one}), "junit").find("failures=\"1\""), std::string::npos);
}

TEST(Render, GbenchHasWhatItsToolsRead) {
  CaseResult gone;
  gone.id = "gone";
  gone.status = CaseStatus::oom;
  gone.reason = "too large";
  const auto json = nlohmann::json::parse(render(report_of({timed_case(), gone}), "gbench"));
  ASSERT_EQ(json["benchmarks"].size(), 4u);  // pass, one stage with samples, two cases that are not ok
  const auto& pass = json["benchmarks"][0];
  EXPECT_EQ(pass["name"], "smoke/chunk=32/forward/cold");
  EXPECT_EQ(pass["real_time"], 2000.0);
  EXPECT_EQ(pass["cpu_time"], 4.5);
  EXPECT_EQ(pass["time_unit"], "us");
  EXPECT_EQ(pass["iterations"], 3);
  EXPECT_EQ(pass["run_type"], "iteration");
  EXPECT_EQ(json["benchmarks"][3]["error_occurred"], true);
  EXPECT_EQ(json["benchmarks"][3]["error_message"], "too large");
}

TEST(Render, JsonFormatsReadBack) {
  const Report report = report_of({timed_case(), timed_case()});
  EXPECT_TRUE(report_from_json(render(report, "json"), "f") == report);
  const std::vector<std::string> lines = lines_of(render(report, "jsonl"));
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_TRUE(case_from_json_line(lines[1], "f") == report.cases[1]);
}

TEST(Render, RefusesUnknownFormats) {
  try {
    render(report_of({}), "tabel");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(),
                 "there is no format 'tabel' (formats: table, md, csv, json, jsonl, junit, gbench, bmf, html); did you "
                 "mean 'table'?");
  }
}

TEST(Layout, OneLineStopsControlCharacters) {
  EXPECT_EQ(one_line("a\x1b[2Jb\r\n\tc\x7f"), "a [2Jb   c ");
  EXPECT_EQ(one_line("a\xC2\x9b"
                     "b\xC2\xB5"),
            "a bµ");
  EXPECT_EQ(one_line("\xC2"), "\xEF\xBF\xBD");
}

}  // namespace
}  // namespace sdm
