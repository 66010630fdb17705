#include <gtest/gtest.h>

#include <fstream>

#include "config_support.h"

namespace sdm {
namespace {

using test::cases_of;
using test::ids_of;
using test::problems_of;
using test::sparse_config;
using Ids = std::vector<std::string>;

const SparseWorkload& sparse(const Case& c) { return std::get<SparseWorkload>(c.workload); }

void expect_says(const std::string& problems, const std::string& says) {
  EXPECT_NE(problems.find(says), std::string::npos) << problems << "\nnot: " << says;
}

TEST(ConfigExpand, CrossedAndLinkedSweeps) {
  const auto cases = cases_of(sparse_config("", R"("sweep": {"workload.chunk": [32, 64], "launch": ["graph", "plan"],
      "link": [{"workload.writes": [4, 8], "workload.reads": [2, 16]}]})"));
  EXPECT_EQ(ids_of(cases),
            (Ids{"t/chunk=32/launch=graph/writes=4/reads=2", "t/chunk=32/launch=graph/writes=8/reads=16",
                 "t/chunk=32/launch=plan/writes=4/reads=2", "t/chunk=32/launch=plan/writes=8/reads=16",
                 "t/chunk=64/launch=graph/writes=4/reads=2", "t/chunk=64/launch=graph/writes=8/reads=16",
                 "t/chunk=64/launch=plan/writes=4/reads=2", "t/chunk=64/launch=plan/writes=8/reads=16"}));
  EXPECT_EQ(sparse(cases[3]).chunk, 32);
  EXPECT_EQ(sparse(cases[3]).reads, 16);
  EXPECT_EQ(cases[3].launch, LaunchMode::plan);
}

TEST(ConfigExpand, EveryKindOfPathIsSwept) {
  const auto cases = cases_of(
      sparse_config("", R"("sweep": {"variants.write": ["ring"], "variants.*": ["auto"], "timing.rel_iqr": [1, 0.25],
      "workload.final_bank_gradient": [true], "workload.distribution.kind": ["product-key"], "workload.kind": ["sparse"]})"));
  EXPECT_EQ(
      ids_of(cases)[1],
      "t/write=ring/*=auto/rel_iqr=0.25/final_bank_gradient=true/distribution.kind=product_key/workload.kind=sparse");
  EXPECT_EQ(cases[1].variants.at("write"), "ring");
  EXPECT_EQ(cases[1].timing.rel_iqr, 0.25);
  EXPECT_EQ(sparse(cases[1]).distribution.kind, Distribution::Kind::product_key);
}

TEST(ConfigExpand, BadSweeps) {
  expect_says(problems_of(sparse_config("", R"("sweep": {"workload.chnk": [32]})")),
              "sweep.workload.chnk: \"workload.chnk\" is no path that can be swept; did you mean \"workload.chunk\"?");
  expect_says(problems_of(sparse_config("", R"("sweep": {"chunk": [32]})")), "is no path that can be swept");
  expect_says(problems_of(sparse_config("", R"("sweep": {"workload.chunk": []})")),
              "sweep.workload.chunk: [] is empty");
  expect_says(problems_of(sparse_config("", R"("sweep": {"workload.chunk": 32})")),
              "sweep.workload.chunk: 32 is an integer; expected a list");
  expect_says(problems_of(sparse_config("", R"("sweep": {"workload.chunk": [32, 300]})")),
              "sweep.workload.chunk[1]: 300 is not legal");
  expect_says(problems_of(sparse_config("", R"("sweep": {"workload.chunk": [32, 64, 32]})")),
              "sweep.workload.chunk[2]: 32 stands twice");
  expect_says(
      problems_of(sparse_config("", R"("sweep": {"link": [{"workload.chunk": [32, 64], "workload.writes": [1]}]})")),
      "sweep.link[0]: linked lists differ in length: workload.chunk has 2 values, workload.writes has 1");
  expect_says(
      problems_of(sparse_config("", R"("sweep": {"workload.chunk": [32], "link": [{"workload.chunk": [32]}]})")),
      "sweep.link[0].workload.chunk: workload.chunk is swept twice");
  expect_says(problems_of(sparse_config("", R"("sweep": {"link": {"workload.chunk": [32]}})")), "sweep.link: ");
  expect_says(problems_of(sparse_config("", R"("sweep": {"link": [[]]})")), "sweep.link[0]: [] is a list");
  expect_says(problems_of(sparse_config("", R"("sweep": [])")), "sweep: [] is a list; expected an object");
}

TEST(ConfigExpand, NumberOfCasesIsBounded) {
  std::string list = "[0";
  for (int i = 1; i < 1000; ++i) list.append(",").append(std::to_string(i));
  list += "]";
  const std::string sweep =
      R"("sweep": {"workload.seed": )" + list + R"(, "timing.warmup": )" + list + R"(, "launch": ["plan", "pdl"]})";
  EXPECT_EQ(problems_of(sparse_config("", sweep)), "x.json:1: the sweeps come to more than 100000 cases");
  ExpandOptions options;
  options.max_cases = 3;
  const std::string text = sparse_config(
      "", R"("cases": [{"name": "a", "sweep": {"workload.chunk": [32, 64]}}, {"name": "b"}, {"name": "c"}])");
  EXPECT_THROW(parse_cases(text, "x.json", options), ConfigErrors);
  options.max_cases = 4;
  EXPECT_EQ(parse_cases(text, "x.json", options).size(), 4u);
}

TEST(ConfigExpand, CasesInherit) {
  const auto cases = cases_of(R"({"schema": 1, "name": "t",
    "workload": {"kind": "sparse", "chunk": 32, "streams": 4, "distribution": {"kind": "zipf", "s": 1.5}},
    "variants": {"*": "auto", "write": "ring"}, "checks": ["guards"], "timing": {"warmup": 7}, "launch": "plan",
    "sweep": {"workload.chunk": [16, 32]},
    "cases": [
      {"name": "plain"},
      {"name": "own", "workload": {"chunk": 8, "distribution": {"kind": "hot", "slots": 16}, "batch": 2, "heads": 3},
       "variants": {"undo": "walk"}, "checks": [], "timing": {"l2": "hot"}, "launch": "graph"},
      {"name": "swept", "sweep": {"workload.distribution.s": [1, 2]}},
      {"name": "dense", "workload": {"kind": "dense", "tokens": 128}}
    ]})");
  EXPECT_EQ(ids_of(cases),
            (Ids{"t/plain/chunk=16", "t/plain/chunk=32", "t/own", "t/swept/s=1", "t/swept/s=2", "t/dense"}));
  const Case& own = cases[2];
  EXPECT_EQ(own.name, "own");
  EXPECT_EQ(sparse(own).chunk, 8);
  EXPECT_EQ(sparse(own).streams, 6);
  EXPECT_EQ(own.params.at("batch"), "2");
  EXPECT_EQ(own.params.at("streams"), "6");
  EXPECT_EQ(sparse(own).distribution.kind, Distribution::Kind::hot);
  EXPECT_EQ(own.params.count("distribution.s"), 0u);
  EXPECT_EQ(own.variants, (std::map<std::string, std::string>{{"*", "auto"}, {"undo", "walk"}, {"write", "ring"}}));
  EXPECT_TRUE(own.checks.empty());
  EXPECT_EQ(own.timing.warmup, 7);
  EXPECT_EQ(own.timing.l2, TimingSpec::L2::hot);
  EXPECT_EQ(own.launch, LaunchMode::graph);
  EXPECT_EQ(cases[0].checks.size(), 1u);
  EXPECT_EQ(sparse(cases[4]).distribution.zipf_s, 2);
  EXPECT_EQ(std::get<DenseWorkload>(cases[5].workload).tokens, 128);
}

TEST(ConfigExpand, InvalidCombinations) {
  const auto says = [](const std::string& workload, const std::string& message) {
    expect_says(problems_of(sparse_config(workload)), message);
  };
  says(R"("writes": 64, "slots": 32)", "workload.writes 64 is more than workload.slots 32");
  says(R"("reads": 64, "slots": 32)", "workload.reads 64 is more than workload.slots 32");
  says(R"("streams": 32768, "slots": 65536)",
       "32768 streams (workload.streams) * 65536 workload.slots = 2147483648 bank rows");
  says(R"("snapshot": "bf16")", "workload.snapshot bf16 with workload.bank_dtype bf16");
  says(R"("grad_dtype": "bf16", "bank_dtype": "f32")", "workload.grad_dtype bf16 with workload.bank_dtype f32");
  says(R"("distribution": {"kind": "hot", "slots": 8})",
       "workload.distribution.slots 8 is fewer than workload.writes 16");
  says(R"("writes": 4, "distribution": {"kind": "hot", "slots": 8})",
       "workload.distribution.slots 8 is fewer than workload.reads 16");
  says(R"("slots": 32, "distribution": {"kind": "hot"})",
       "workload.distribution.slots 64 is more than workload.slots 32");
  says(R"("distribution": {"kind": "replay"})", "replay needs workload.distribution.file");
  says(R"("distribution": {"s": 2})",
       "workload.distribution.s is given beside workload.distribution.kind uniform; legal only beside zipf");
  says(R"("streams": 2, "batch": 2)", "workload.streams and workload.batch or workload.heads are both given");
  says(R"("batch": 65536, "heads": 65536, "slots": 256)",
       "workload.batch 65536 * workload.heads 65536 = 4294967296 streams");
  says(R"("tokens": 1073741824, "head_dim": 1048576, "streams": 1000)", "elements; at most 2^44");
  EXPECT_EQ(problems_of(sparse_config(R"("streams": 32767, "slots": 65536)")), "");
  EXPECT_EQ(problems_of(sparse_config(R"("snapshot": "bf16", "bank_dtype": "f32")")), "");
  EXPECT_EQ(problems_of(sparse_config(R"("grad_dtype": "f32")")), "");
  EXPECT_EQ(problems_of(sparse_config(R"("writes": 32, "slots": 32)")), "");
  // A value that is wrong by itself says nothing about others.
  EXPECT_EQ(problems_of(sparse_config(R"("writes": 32, "slots": 0)")),
            "x.json:1: workload.slots: 0 is not legal; legal: an integer from 1 to 2147483647");
}

TEST(ConfigExpand, CombinationsAreFoundInSweeps) {
  expect_says(problems_of(sparse_config(R"("slots": 32)", "\"sweep\": {\n\"workload.writes\": [16,\n 64]}")),
              "x.json:3: sweep.workload.writes[1]: workload.writes 64 is more than workload.slots 32");
}

TEST(ConfigExpand, OverridesReachEveryCase) {
  const std::string text = sparse_config(
      "", R"("sweep": {"workload.chunk": [32, 64], "link": [{"workload.writes": [4, 8], "workload.reads": [4, 8]}]},
      "cases": [{"name": "a"}, {"name": "b", "workload": {"tokens": 9}, "sweep": {}}])");
  auto cases = cases_of(text, {"workload.tokens=512", "workload.seed=18446744073709551615"});
  EXPECT_EQ(cases.size(), 5u);
  for (const Case& c : cases) {
    EXPECT_EQ(sparse(c).tokens, 512);
    EXPECT_EQ(sparse(c).seed, 18446744073709551615u);
  }
  EXPECT_EQ(ids_of(cases_of(text, {"workload.chunk=16", "workload.writes=2"})),
            (Ids{"t/a/reads=4", "t/a/reads=8", "t/b"}));
  EXPECT_EQ(ids_of(cases_of(text, {"workload.chunk=[8, 16]", "workload.writes=2", "workload.reads=2"})),
            (Ids{"t/a/chunk=8", "t/a/chunk=16", "t/b/chunk=8", "t/b/chunk=16"}));
  EXPECT_EQ(cases_of(text, {"launch=graph", "launch=plan"})[0].launch, LaunchMode::plan);
  EXPECT_EQ(ids_of(cases_of(text, {"workload.chunk=[8]", "workload.chunk=16"})).front(), "t/a/writes=4/reads=4");
}

TEST(ConfigExpand, OverridesOfSectionsChecksAndVariants) {
  const auto c = cases_of(
      sparse_config(R"("distribution": {"kind": "zipf", "s": 2})"),
      {R"(workload.distribution={"kind": "hot", "slots": 32})", R"(checks=["guards", {"repeat": {"runs": 4}}])",
       "variants.write=direct", "timing.l2=hot", "workload.batch=3"})[0];
  EXPECT_EQ(sparse(c).distribution.hot_slots, 32);
  EXPECT_EQ(sparse(c).streams, 3);
  EXPECT_EQ(c.checks[1].runs, 4);
  EXPECT_EQ(c.variants.at("write"), "direct");
  EXPECT_TRUE(c.timed);
  EXPECT_EQ(sparse(cases_of(sparse_config(R"("batch": 2, "heads": 3)"), {"workload.streams=5"})[0]).streams, 5);
}

TEST(ConfigExpand, OverridesFitWhatHasTheKey) {
  const std::string text =
      sparse_config("", R"("cases": [{"name": "s"}, {"name": "d", "workload": {"kind": "dense"}}])");
  const auto cases = cases_of(text, {"workload.chunk=32", "workload.tokens=128", "workload.dq=[\"off\"]"});
  EXPECT_EQ(ids_of(cases), (Ids{"t/s", "t/d/dq=off"}));
  EXPECT_EQ(sparse(cases[0]).chunk, 32);
  EXPECT_EQ(std::get<DenseWorkload>(cases[1].workload).tokens, 128);
  EXPECT_TRUE(std::holds_alternative<DenseWorkload>(
      cases_of(sparse_config(R"("chunk": 32)"), {"workload.kind=dense"})[0].workload));
}

TEST(ConfigExpand, BadOverrides) {
  const std::string text = sparse_config("");
  expect_says(problems_of(text, {"workload.tokns=1"}),
              "--set workload.tokns=1: workload.tokns: no such path; workload has the keys kind, streams");
  expect_says(problems_of(text, {"workload.tokns=1"}), "did you mean \"workload.tokens\"?");
  expect_says(problems_of(text, {"tokens=1"}), "tokens: no such path");
  expect_says(problems_of(text, {"workload.tokens"}), "--set workload.tokens: expected path=value");
  expect_says(problems_of(text, {"workload.chunk=300"}),
              "--set workload.chunk=300: workload.chunk: 300 is not legal; legal: an integer from 2 to 256");
  expect_says(problems_of(text, {"workload.chunk=[32, 300]"}), "workload.chunk[1]: 300 is not legal");
  expect_says(problems_of(text, {"workload.chunk=[32"}), "is no JSON");
  expect_says(problems_of(text, {"workload.dq=off"}),
              "--set workload.dq=off: workload.dq: no case of these configs has this key");
  expect_says(problems_of(text, {"workload.distribution.s=2"}), "no case of these configs has this key");
  expect_says(problems_of(text, {"workload.dq=[\"off\"]"}), "no case of these configs has this key");
  expect_says(problems_of(text, {"schema=2"}), "no such path");
  expect_says(problems_of(text, {"workload.slots=4"}), "workload.writes 16 is more than workload.slots 4");
}

TEST(ConfigExpand, VariantsOfACatalogue) {
  const VariantCatalogue catalogue = {{"write", {"ring", "direct"}}, {"gather", {"rows"}}};
  const auto with = [&](const std::string& variants) {
    return problems_of(sparse_config("", "\"variants\": " + variants), {}, catalogue);
  };
  EXPECT_EQ(with(R"({"write": "direct", "gather": "auto", "*": "rows"})"), "");
  expect_says(with(R"({"write": "dirct"})"),
              "variants.write: \"dirct\" is no variant of write; legal: auto, ring, direct; did you mean \"direct\"?");
  expect_says(with(R"({"*": "nothing"})"), "\"nothing\" is no variant of any stage; legal: auto, rows, ring, direct");
  expect_says(with(R"({"solve": "columns"})"), "\"columns\" is no variant of solve; legal: auto");
  EXPECT_EQ(problems_of(sparse_config("", R"("variants": {"write": "anything"})")), "");
}

TEST(ConfigExpand, IdsAreUnique) {
  expect_says(problems_of(sparse_config(
                  "", R"("cases": [{"name": "a", "sweep": {"workload.chunk": [32]}}, {"name": "a/chunk=32"}])")),
              "two cases have the id \"t/a/chunk=32\"");
  const std::vector<ConfigFile> twice = {parse_config(sparse_config(""), "one.json"),
                                         parse_config(sparse_config(""), "two.json")};
  try {
    expand(twice);
    FAIL();
  } catch (const ConfigErrors& errors) {
    expect_says(errors.what(), "two.json:1: name: \"t\" is also the name of one.json");
  }
}

TEST(ConfigExpand, SeveralFilesAtOnce) {
  const std::string folder = testing::TempDir();
  const std::vector<std::string> paths = {folder + "sdm_a.json", folder + "sdm_b.json", folder + "sdm_missing.json"};
  std::ofstream(paths[0]) << "{";
  std::ofstream(paths[1]) << sparse_config(R"("chunk": 1)");
  try {
    load_cases(paths);
    FAIL();
  } catch (const ConfigErrors& errors) {
    EXPECT_EQ(errors.problems.size(), 3u);
    expect_says(errors.what(), "sdm_a.json:1: column 2: the file ends");
    expect_says(errors.what(), "sdm_b.json:1: workload.chunk: 1 is not legal");
    expect_says(errors.what(), "sdm_missing.json: cannot be read");
  }
}

/// The effective config is a config: it expands to the same ids and workloads, and to itself.
TEST(ConfigExpand, EffectiveConfigsExpandToTheSameCases) {
  for (const std::string name :
       {"quickstart", "smoke", "correctness", "dense", "h200_perf", "launch_modes", "launch_streams", "launch_rule"}) {
    const auto cases =
        cases_of(test::read_text(std::string(SDM_SOURCE_DIR) + "/configs/" + name + ".json"), {"workload.seed=99"});
    const std::string effective = effective_config_json(cases);
    const auto again = cases_of(effective);
    EXPECT_EQ(ids_of(again), ids_of(cases));
    EXPECT_EQ(effective_config_json(again), effective);
    for (std::size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(again[i].params, cases[i].params);
      EXPECT_EQ(again[i].variants, cases[i].variants);
      EXPECT_EQ(again[i].timed, cases[i].timed);
      EXPECT_EQ(again[i].checks.size(), cases[i].checks.size());
    }
  }
}

}  // namespace
}  // namespace sdm
