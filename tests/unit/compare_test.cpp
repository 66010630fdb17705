#include "report/compare.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "base/error.h"
#include "base/text.h"
#include "report/compare_command.h"
#include "report/sample_stats.h"

namespace sdm {
namespace {

/// Samples around `center`: `count` of them, evenly over +-`spread` of it.
SampleStats around(double center, double spread = 0.01, int count = 20) {
  std::vector<double> samples;
  for (int i = 0; i < count; ++i)
    samples.push_back(center * (1 + spread * (count == 1 ? 0.0 : 2.0 * i / (count - 1) - 1)));
  return sample_stats(std::move(samples), 0, true);
}

CaseResult a_case(const std::string& id, SampleStats gather, SampleStats write = around(200)) {
  CaseResult out;
  out.id = id, out.name = id;
  out.params = {{"chunk", "64"}};
  out.status = CaseStatus::ok;
  out.device = "GPU-1";
  out.variants = {{"gather", {"rows", "", "exact"}}, {"write", {"ring", "", "exact"}}};
  out.digests = {{"gather", {{"inter", "aa"}, {"retrieved", "bb"}}}, {"write", {{"bank", "cc"}}}};
  out.passes = {{"forward", "cold", around(400), {}, {}, {}, {}}};
  out.stages = {{"gather", "forward", "cold", 4, std::move(gather), 1e6, {}, 1e10, 50.0},
                {"write", "forward", "cold", 4, std::move(write), {}, {}, {}, {}}};
  out.peak_memory_bytes = 1000;
  out.geometry = {{"contract_version", 3}};
  return out;
}

Report report_of(std::vector<CaseResult> cases, const std::string& device = "NVIDIA H200") {
  Report report;
  report.tool.version = "0.1.0";
  report.tool.contract_version = 3;
  report.devices = {{.kind = "cuda", .name = device, .uuid = "GPU-1"}};
  report.run.argv = {"sdm-bench", "run", "a config.json", "--filter", "x",
                     "--quick",   "-o",  "old.json",      "--set",    "workload.seed=3"};
  report.cases = std::move(cases);
  return report;
}

MergedSide side(std::vector<Report> reports) {
  std::vector<std::string> files;
  for (std::size_t i = 0; i < reports.size(); ++i) files.push_back(fmt::format("f{}.json", i));
  return merge_reports(reports, files);
}

Comparison compare_one(const CaseResult& base, const CaseResult& now, const CompareRules& rules = {}) {
  return compare(side({report_of({base})}), side({report_of({now})}), rules);
}

const CompareRow& row(const Comparison& comparison, const std::string& stage, Metric metric = Metric::median_us) {
  for (const ComparedCase& c : comparison.cases)
    for (const CompareRow& r : c.rows)
      if (r.stage == stage && r.metric == metric) return r;
  throw std::runtime_error("no row of " + stage);
}

TEST(Compare, SlowerFasterSame) {
  const Comparison slower = compare_one(a_case("a", around(100)), a_case("a", around(110)));
  EXPECT_EQ(row(slower, "gather").verdict, Verdict::slower);
  EXPECT_NEAR(*row(slower, "gather").relative, 0.1, 1e-12);
  EXPECT_EQ(row(slower, "write").verdict, Verdict::same);
  EXPECT_EQ(slower.outcome, Outcome::regression);
  EXPECT_EQ(slower.cases[0].digests, DigestVerdict::equal);
  EXPECT_EQ(slower.cases[0].tensors, 3);

  const Comparison faster = compare_one(a_case("a", around(110)), a_case("a", around(100)));
  EXPECT_EQ(row(faster, "gather").verdict, Verdict::faster);
  EXPECT_EQ(faster.outcome, Outcome::good);
}

TEST(Compare, BothLimitsMustBePassed) {
  EXPECT_EQ(row(compare_one(a_case("a", around(100)), a_case("a", around(104, 0.001))), "gather").verdict,
            Verdict::same);
  EXPECT_EQ(row(compare_one(a_case("a", around(1)), a_case("a", around(1.4))), "gather").verdict,
            Verdict::same);  // 0.4 us
  EXPECT_EQ(row(compare_one(a_case("a", around(1)), a_case("a", around(1.6))), "gather").verdict, Verdict::slower);
}

TEST(Compare, OverlapIsAmbiguousAndNamesTheCommand) {
  const Comparison c = compare_one(a_case("a/chunk=1.5", around(100, 0.2)), a_case("a/chunk=1.5", around(110, 0.2)));
  EXPECT_EQ(row(c, "gather").verdict, Verdict::ambiguous);
  EXPECT_EQ(row(c, "gather").note, "the quartile intervals overlap");
  EXPECT_EQ(c.outcome, Outcome::good);
  EXPECT_EQ(
      c.more_samples,
      "sdm-bench run 'a config.json' --set workload.seed=3 --set timing.min_samples=80 --set timing.max_seconds=60 "
      "--filter '^(a/chunk=1\\.5)$' -o more.json");
  CompareRules gate;
  gate.require_all = true;
  EXPECT_EQ(compare_one(a_case("a", around(100, 0.2)), a_case("a", around(110, 0.2)), gate).outcome,
            Outcome::inconclusive);
}

TEST(Compare, WideSpreadIsNotCalledTheSame) {
  const Comparison c = compare_one(a_case("a", around(100, 0.6)), a_case("a", around(100)));
  EXPECT_EQ(row(c, "gather").verdict, Verdict::ambiguous);
  EXPECT_NE(row(c, "gather").note.find("base side spreads"), std::string::npos);
}

TEST(Compare, FewSamplesDecideNothing) {
  const Comparison c = compare_one(a_case("a", around(100, 0, 1)), a_case("a", around(300, 0, 1)));
  EXPECT_EQ(row(c, "gather").verdict, Verdict::ambiguous);
  EXPECT_EQ(row(c, "gather").note, "the base side has 1 of 8 samples");
  EXPECT_EQ(row(compare_one(a_case("a", around(100, 0, 1)), a_case("a", around(101, 0, 1))), "gather").verdict,
            Verdict::same);
}

TEST(Compare, ZeroAndNullMedians) {
  const Comparison zero = compare_one(a_case("a", around(0)), a_case("a", around(0)));
  EXPECT_EQ(row(zero, "gather").verdict, Verdict::same);
  EXPECT_FALSE(row(zero, "gather").relative);
  EXPECT_EQ(row(compare_one(a_case("a", around(0)), a_case("a", around(5))), "gather").verdict, Verdict::slower);
  EXPECT_EQ(row(compare_one(a_case("a", around(5)), a_case("a", around(0))), "gather").verdict, Verdict::faster);

  const Comparison null = compare_one(a_case("a", around(1)), a_case("a", sample_stats({}, 0, false)));
  EXPECT_EQ(row(null, "gather").verdict, Verdict::not_timed);
  EXPECT_EQ(null.outcome, Outcome::good);
  const Comparison neither =
      compare_one(a_case("a", sample_stats({}, 0, false)), a_case("a", sample_stats({}, 0, false)));
  EXPECT_THROW(row(neither, "gather"), std::runtime_error);  // nothing to say
  for (const char* format : {"table", "md", "json", "junit"})
    for (const Comparison* c : {&zero, &null, &neither})
      for (const char* bad : {"nan", "inf"})
        EXPECT_EQ(render_comparison(*c, format, false, true).find(bad), std::string::npos);
}

/// The promise of spec 5.6: two runs of one build show no regression, whatever the noise.
TEST(Compare, RunsOfOneBuildAreQuiet) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  int judged = 0, wrong = 0;
  for (int round = 0; round < 400; ++round) {
    const double sigma = round % 2 == 0 ? 0.01 : 0.05;
    std::lognormal_distribution<double> noise(std::log(100), sigma);
    const auto draw = [&] {
      std::vector<double> samples(20);
      for (double& sample : samples) sample = noise(random);
      return sample_stats(std::move(samples), 0, true);
    };
    const Comparison c = compare_one(a_case("a", draw(), draw()), a_case("a", draw(), draw()));
    judged += 2;
    wrong += c.tally.slower + c.tally.faster;
  }
  // Medians of 20 samples of 5 % noise differ by 2 % (one sigma): past 5 % with disjoint quartiles is a rare event.
  EXPECT_LE(wrong, judged / 100);
  const Report same = report_of({a_case("a", around(100, 0.3))});
  EXPECT_EQ(compare(side({same}), side({same}), {}).tally.slower, 0);
}

TEST(Compare, DigestsOutweighSpeed) {
  CaseResult now = a_case("a", around(150));
  now.digests["write"]["bank"] = "dd";
  const Comparison c = compare_one(a_case("a", around(100)), now);
  EXPECT_EQ(c.outcome, Outcome::failed);
  EXPECT_EQ(c.cases[0].differing, std::vector<std::string>{"write/bank"});
  EXPECT_EQ(c.tally.slower, 1);
  EXPECT_NE(render_comparison(c, "table", false, false).find("digests DIFFER in write/bank"), std::string::npos);
}

TEST(Compare, DigestsWithinASideMustAgreeToo) {
  CaseResult second = a_case("a", around(100));
  second.digests["gather"]["inter"] = "zz";
  const Report base = report_of({a_case("a", around(100))});
  const Comparison c = compare(side({base}), side({base, report_of({second})}), {});
  EXPECT_EQ(c.outcome, Outcome::failed);
  EXPECT_EQ(c.cases[0].differing, std::vector<std::string>{"gather/inter (between runs of the new side)"});
}

TEST(Compare, OtherContractSaysSoAndIsNoFailure) {
  CaseResult now = a_case("a", around(100));
  now.geometry["contract_version"] = 4;
  now.digests["write"]["bank"] = "dd";
  const Comparison c = compare_one(a_case("a", around(100)), now);
  EXPECT_EQ(c.cases[0].digests, DigestVerdict::not_compared);
  EXPECT_NE(c.cases[0].digest_note.find("contract version 3 in the base, 4 in the new results"), std::string::npos);
  EXPECT_EQ(c.outcome, Outcome::good);
  CompareRules digests;
  digests.digests_only = true;
  EXPECT_EQ(compare_one(a_case("a", around(100)), now, digests).outcome, Outcome::inconclusive);
}

TEST(Compare, InexactStagesCompareOnlyWithThemselves) {
  CaseResult base = a_case("a", around(100)), now = base;
  base.variants["gather"].guarantee = now.variants["gather"].guarantee = "repeatable";
  EXPECT_EQ(compare_one(base, now).cases[0].digests, DigestVerdict::equal);
  now.variants["gather"].name = "other";
  EXPECT_EQ(compare_one(base, now).cases[0].digests, DigestVerdict::not_compared);
  now.variants["gather"].guarantee = base.variants["gather"].guarantee = "exact";
  EXPECT_EQ(compare_one(base, now).cases[0].digests, DigestVerdict::equal);
}

TEST(Compare, OtherDeviceIsRefusedUnlessAskedFor) {
  const MergedSide h200 = side({report_of({a_case("a", around(100))})});
  const MergedSide b200 = side({report_of({a_case("a", around(50))}, "NVIDIA B200")});
  const Comparison refused = compare(h200, b200, {});
  EXPECT_EQ(refused.outcome, Outcome::inconclusive);
  EXPECT_TRUE(refused.cases[0].rows.empty());
  EXPECT_EQ(refused.cases[0].digests, DigestVerdict::equal);
  EXPECT_NE(refused.refused.find("the base ran on NVIDIA H200, the new side on NVIDIA B200"), std::string::npos);
  CompareRules rules;
  rules.cross_device = true;
  EXPECT_EQ(row(compare(h200, b200, rules), "gather").verdict, Verdict::faster);
  rules = {};
  rules.digests_only = true;
  const Comparison digests = compare(h200, b200, rules);
  EXPECT_EQ(digests.outcome, Outcome::good);
  EXPECT_TRUE(digests.refused.empty());
}

TEST(Compare, MissingAddedAndReordered) {
  const Report base = report_of({a_case("a", around(100)), a_case("b", around(100)), a_case("gone", around(1))});
  const Report now = report_of({a_case("new", around(1)), a_case("b", around(100)), a_case("a", around(100))});
  CompareRules rules;
  const Comparison c = compare(side({base}), side({now}), rules);
  EXPECT_EQ(c.outcome, Outcome::good);
  EXPECT_EQ(c.tally.missing, 1);
  EXPECT_EQ(c.tally.added, 1);
  ASSERT_EQ(c.cases.size(), 4u);
  EXPECT_EQ(c.cases[2].presence, Presence::missing);
  EXPECT_EQ(c.cases[3].id, "new");
  EXPECT_EQ(c.cases[1].digests, DigestVerdict::equal);
  rules.require_all = true;
  EXPECT_EQ(compare(side({base}), side({now}), rules).outcome, Outcome::inconclusive);
  // Added alone is no reason to refuse.
  EXPECT_EQ(compare(side({report_of({a_case("a", around(100))})}),
                    side({report_of({a_case("a", around(100)), a_case("n", around(1))})}), rules)
                .outcome,
            Outcome::good);
}

TEST(Compare, StatusesOfTheNewSide) {
  for (const CaseStatus status :
       {CaseStatus::failed, CaseStatus::oom, CaseStatus::not_run, CaseStatus::skipped, CaseStatus::error}) {
    CaseResult now = a_case("a", around(500));
    now.status = status;
    now.reason = "because";
    CompareRules rules;
    const bool failed = status == CaseStatus::failed;
    const CaseResult other = a_case("b", around(1));
    const Report base = report_of({a_case("a", around(100)), other});
    EXPECT_EQ(compare(side({base}), side({report_of({now, other})}), rules).outcome,
              failed ? Outcome::failed : Outcome::good);
    rules.require_all = true;
    EXPECT_EQ(compare(side({base}), side({report_of({now, other})}), rules).outcome,
              failed ? Outcome::failed : Outcome::inconclusive);
    EXPECT_EQ(compare(side({base}), side({report_of({now, other})}), rules).tally.slower, 0);
  }
}

TEST(Compare, NothingInCommonIsInconclusive) {
  EXPECT_EQ(
      compare(side({report_of({a_case("a", around(1))})}), side({report_of({a_case("b", around(1))})}), {}).outcome,
      Outcome::inconclusive);
  EXPECT_EQ(compare(side({report_of({})}), side({report_of({})}), {}).outcome, Outcome::inconclusive);
}

TEST(Compare, OtherParametersUnderOneIdAreNotComparable) {
  CaseResult now = a_case("a", around(500));
  now.params["chunk"] = "32";
  const Comparison c = compare_one(a_case("a", around(100)), now);
  EXPECT_FALSE(c.cases[0].comparable);
  EXPECT_EQ(c.cases[0].reason, "the parameters differ: chunk");
  EXPECT_EQ(c.outcome, Outcome::inconclusive);
}

TEST(Compare, FilesOfASidePool) {
  const Report few = report_of({a_case("a", around(100, 0.01, 5))}),
               slow = report_of({a_case("a", around(120, 0.01, 5))});
  EXPECT_EQ(row(compare(side({few}), side({slow}), {}), "gather").verdict, Verdict::ambiguous);
  const Comparison c = compare(side({few, few}), side({slow, slow, slow}), {});
  EXPECT_EQ(row(c, "gather").base.samples, 10u);
  EXPECT_EQ(row(c, "gather").now.samples, 15u);
  EXPECT_EQ(row(c, "gather").verdict, Verdict::slower);
  // A run that did not make it adds nothing.
  Report broken = slow;
  broken.cases[0].status = CaseStatus::oom;
  EXPECT_EQ(row(compare(side({few, few}), side({broken, slow, slow}), {}), "gather").now.samples, 10u);
}

TEST(Compare, ExitIsNeverACount) {
  CaseResult base = a_case("a", around(100)), now = base;
  base.stages.clear(), now.stages.clear();
  for (int i = 0; i < 300; ++i) {
    base.stages.push_back({fmt::format("stage{}", i), "forward", "cold", 1, around(100), {}, {}, {}, {}});
    now.stages.push_back({fmt::format("stage{}", i), "forward", "cold", 1, around(200), {}, {}, {}, {}});
  }
  const Comparison c = compare_one(base, now);
  EXPECT_EQ(c.tally.slower, 300);
  EXPECT_EQ(c.outcome, Outcome::regression);
}

TEST(Compare, TensorsThatWentAway) {
  CaseResult now = a_case("a", around(100));
  now.digests.erase("write");
  CompareRules rules;
  EXPECT_EQ(compare_one(a_case("a", around(100)), now, rules).cases[0].lost, std::vector<std::string>{"write/bank"});
  EXPECT_EQ(compare_one(a_case("a", around(100)), now, rules).outcome, Outcome::good);
  rules.require_all = true;
  EXPECT_EQ(compare_one(a_case("a", around(100)), now, rules).outcome, Outcome::inconclusive);
}

TEST(Thresholds, MetricsStagesAndDirections) {
  CompareRules rules;
  read_thresholds(R"({ "schema": 1, // comments are fine
    "stages": { "gather": { "median_us": { "relative": 0.5 } }, "write": { "median_us": { "direction": "off" } } },
    "metrics": { "median_us": { "relative": 0.01, "absolute": 2 }, "roof_percent": { "relative": 0.1 },
                 "peak_memory_bytes": { "relative": 0, "direction": "either" } },
    "min_samples": 3 })",
                  "t.json", rules);
  EXPECT_EQ(rules.min_samples, 3u);
  EXPECT_EQ(rules.limit("gather", Metric::median_us), (Limit{Direction::lower, 0.5, 2}));
  EXPECT_EQ(rules.limit("mix", Metric::median_us), (Limit{Direction::lower, 0.01, 2}));
  EXPECT_EQ(rules.limit("write", Metric::median_us).direction, Direction::off);
  EXPECT_EQ(rules.limit("gather", Metric::roof_percent).direction, Direction::higher);

  CaseResult now = a_case("a", around(140));
  now.stages[0].roof_percent = 50.0 * 100 / 140;
  now.stages[0].bytes_per_second = 1e10 * 100 / 140;
  now.peak_memory_bytes = 900;
  const Comparison c = compare_one(a_case("a", around(100)), now, rules);
  EXPECT_EQ(row(c, "gather").verdict, Verdict::same);  // 40 % of the 50 that gather may take
  EXPECT_EQ(row(c, "gather", Metric::roof_percent).verdict, Verdict::slower);
  EXPECT_EQ(row(c, "", Metric::peak_memory_bytes).verdict, Verdict::slower);  // either: any change
  EXPECT_THROW(row(c, "write"), std::runtime_error);
}

TEST(Thresholds, EveryProblemIsNamed) {
  CompareRules rules;
  try {
    read_thresholds(
        "{\n\"metrics\": {\"medain_us\": {}, \"min_us\": {\"relative\": -1, \"direction\": \"lowr\"}},\n"
        "\"stages\": {\"gathr\": {}, \"mix\": {\"peak_memory_bytes\": {}}}, \"min_sample\": 3}",
        "t.json", rules);
    FAIL();
  } catch (const UserError& error) {
    const std::string text = error.what();
    for (const char* part :
         {"t.json:1: schema: missing; legal: 1", "t.json:2: metrics.medain_us: unknown key \"medain_us\"",
          "did you mean \"median_us\"", "metrics.min_us.relative: -1 is not legal; legal: a number from 0",
          "\"lowr\" is not legal; legal: one of lower, higher, either, off; did you mean \"lower\"",
          "t.json:3: stages.gathr: unknown key", "did you mean \"gather\"", "is of a case, not of a stage",
          "min_sample: unknown key"})
      EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

TEST(Compare, EveryFormatOfAMixedComparison) {
  CaseResult worse = a_case("b", around(150)), gone = a_case("gone", around(1)), failed = a_case("c|<x>&\"", around(1));
  failed.status = CaseStatus::failed, failed.reason = "replay: first <difference>";
  const Report base =
      report_of({a_case("a", around(100)), a_case("b", around(100)), gone, a_case("c|<x>&\"", around(1))});
  const Comparison c =
      compare(side({base}), side({report_of({a_case("a", around(100)), worse, failed, a_case("n", around(2))})}), {});
  const auto json = nlohmann::json::parse(render_comparison(c, "json", false, false));
  EXPECT_EQ(json["outcome"], "failed");
  EXPECT_EQ(json["tally"]["slower"], 1);
  EXPECT_EQ(json["cases"][1]["rows"][1]["verdict"], "slower");
  EXPECT_EQ(json["cases"][2]["presence"], "missing");
  EXPECT_TRUE(json["cases"][2]["new_status"].is_null());
  const std::string xml = render_comparison(c, "junit", false, false);
  EXPECT_NE(xml.find("failures=\"2\""), std::string::npos) << xml;
  EXPECT_NE(xml.find("classname=\"c|&lt;x&gt;&amp;&quot;\""), std::string::npos);
  const std::string md = render_comparison(c, "md", false, false);
  EXPECT_NE(md.find("| b | gather (cold) |"), std::string::npos) << md;
  const std::string table = render_comparison(c, "table", false, false);
  EXPECT_NE(table.find("✗ c|<x>&\"  failed in the new results: replay: first <difference>"), std::string::npos)
      << table;
  EXPECT_NE(table.find("1 slower, 2 same"), std::string::npos) << table;
  EXPECT_NE(render_comparison(c, "table", false, true).find("write (cold)"), std::string::npos);
  EXPECT_EQ(render_comparison(c, "table", true, false).find("\x1b[31m") == std::string::npos, false);
  EXPECT_THROW(render_comparison(c, "tabel", false, false), UserError);
}

TEST(Compare, ShellWordsAndPatterns) {
  EXPECT_EQ(shell_word("a/b=1"), "a/b=1");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
  EXPECT_EQ(regex_literal("a.b(c)"), "a\\.b\\(c\\)");
}

}  // namespace
}  // namespace sdm
