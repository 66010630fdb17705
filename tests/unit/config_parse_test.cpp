#include <gtest/gtest.h>

#include "config_support.h"

namespace sdm {
namespace {

using test::cases_of;
using test::problems_of;
using test::sparse_config;

void expect_says(const std::string& text, const std::string& says) {
  const std::string problems = problems_of(text);
  EXPECT_NE(problems.find(says), std::string::npos) << text << "\nsays: " << problems << "\nnot: " << says;
}

TEST(ConfigParse, TheExampleOfTheSpecification) {
  const std::vector<Case> cases = cases_of(R"({ "schema": 1, "name": "quickstart",
    "workload": { "kind": "sparse", "streams": 4, "tokens": 512, "chunk": 64, "writes": 16, "reads": 16, "head_dim": 64, "slots": 4096,
                  "bank_dtype": "bf16", "value_dtype": "bf16", "grad_dtype": "bank", "index_dtype": "i32", "gate": "token", "snapshot": "raw",
                  "distribution": { "kind": "zipf", "s": 1.1 }, "seed": 7 },
    "variants": { "*": "auto", "write": "direct" }, "launch": "auto",
    "sweep": { "workload.chunk": [32, 64], "link": [ { "workload.writes": [16, 64], "workload.reads": [16, 64] } ] },
    "checks": [ "guards", "bank_restored", { "replay": { "lockstep": true } }, { "repeat": { "runs": 3 } }, { "oracle": { "round_bank": true } } ],
    "timing": { "min_samples": 20, "max_seconds": 10, "rel_iqr": 0.01, "l2": "cold", "per_stage": true } })");
  ASSERT_EQ(cases.size(), 4u);
  const Case& last = cases[3];
  EXPECT_EQ(last.id, "quickstart/chunk=64/writes=64/reads=64");
  EXPECT_EQ(last.name, "quickstart");
  const auto& w = std::get<SparseWorkload>(last.workload);
  EXPECT_EQ(w.streams, 4);
  EXPECT_EQ(w.chunk, 64);
  EXPECT_EQ(w.reads, 64);
  EXPECT_EQ(w.value_dtype, DType::bf16);
  EXPECT_EQ(w.grad_dtype, DType::bf16);
  EXPECT_EQ(w.distribution.kind, Distribution::Kind::zipf);
  EXPECT_EQ(w.seed, 7u);
  EXPECT_EQ(last.variants.at("write"), "direct");
  EXPECT_EQ(last.variants.at("*"), "auto");
  ASSERT_EQ(last.checks.size(), 5u);
  EXPECT_EQ(last.checks[2].kind, CheckSpec::Kind::replay);
  EXPECT_TRUE(last.checks[2].lockstep);
  EXPECT_TRUE(last.timed);
  EXPECT_EQ(last.params.at("writes"), "64");
  EXPECT_EQ(last.params.at("grad_dtype"), "bf16");
  EXPECT_EQ(last.params.at("distribution.s"), "1.1");
  EXPECT_EQ(last.params.count("batch"), 0u);
}

TEST(ConfigParse, DefaultsAreThoseOfTheStructures) {
  const Case c = cases_of(sparse_config(""))[0];
  const SparseWorkload& w = std::get<SparseWorkload>(c.workload);
  const SparseWorkload standard;
  EXPECT_EQ(w.tokens, standard.tokens);
  EXPECT_EQ(w.slots, standard.slots);
  EXPECT_EQ(w.snapshot, standard.snapshot);
  EXPECT_FALSE(c.timed);
  EXPECT_TRUE(c.checks.empty());
  EXPECT_EQ(c.launch, LaunchMode::automatic);
}

TEST(ConfigParse, OneValueOneMessage) {
  expect_says(sparse_config(R"("chunk": 300)"),
              "x.json:1: workload.chunk: 300 is not legal; legal: an integer from 2 to 256");
  expect_says(sparse_config(R"("chunk": 1)"), "workload.chunk: 1 is not legal");
  expect_says(sparse_config(R"("chunk": "64")"), "workload.chunk: \"64\" is not legal; legal: an integer");
  expect_says(sparse_config(R"("chunk": 64.5)"), "workload.chunk: 64.5 is not legal");
  expect_says(sparse_config(R"("chunk": null)"), "workload.chunk: null is not legal");
  expect_says(sparse_config(R"("chunk": [32, 64])"),
              "a list of values to try belongs in sweep: {\"workload.chunk\": [...]}");
  expect_says(sparse_config(R"("chunk": {})"), "workload.chunk: {} is an object; legal: an integer");
  expect_says(sparse_config(R"("chnk": 64)"), "workload.chnk: unknown key \"chnk\"; legal: kind, streams,");
  expect_says(sparse_config(R"("chnk": 64)"), "did you mean \"chunk\"?");
  expect_says(sparse_config(R"("bank_dtype": "bf61")"),
              "\"bf61\" is not legal; legal: one of f32, bf16; did you mean \"bf16\"?");
  expect_says(sparse_config(R"("final_bank_gradient": 1)"),
              "workload.final_bank_gradient: 1 is not legal; legal: true or false");
  expect_says(sparse_config(R"("distribution": "zipf")"),
              "workload.distribution: \"zipf\" is a text; expected an object");
  expect_says(sparse_config(R"("distribution": {"kind": "zipf", "s": 0})"),
              "workload.distribution.s: 0 is not legal; legal: a number above 0");
  expect_says(sparse_config(R"("distribution.kind": "zipf")"), "unknown key \"distribution.kind\"");
  expect_says(sparse_config(R"("head_dim": 1048577)"), "legal: an integer from 1 to 1048576");
  expect_says(sparse_config(R"("seed": -1)"), "workload.seed: -1 is not legal");
  expect_says(sparse_config(R"("seed": 99999999999999999999)"), "workload.seed: 1e+20 is not legal");
  expect_says(sparse_config(R"("dq": "off")"), "workload.dq: a sparse workload has no key \"dq\"");
  expect_says(R"({"schema": 1, "name": "t", "workload": {"kind": "dense", "tokens": 100}})",
              "workload.tokens: 100 is not legal; legal: an integer from 64 to 1073741824 in steps of 64");
  expect_says(R"({"schema": 1, "name": "t", "workload": {"kind": "dense", "chunk": 64}})",
              "workload.chunk: a dense workload has no key \"chunk\"");
  expect_says(R"({"schema": 1, "name": "t", "workload": {"kind": "dens"}})",
              "workload.kind: \"dens\" is not legal; legal: one of sparse, dense; did you mean \"dense\"?");
  expect_says(R"({"schema": 1, "name": "t"})", "workload.kind: missing; legal: one of sparse, dense");
  expect_says(R"({"name": "t", "workload": {"kind": "sparse"}})", "schema: missing; legal: 1");
  expect_says(R"({"schema": 2, "name": "t", "workload": {"kind": "sparse"}})",
              "schema: 2 is no schema version that this program reads; legal: 1");
  expect_says(R"({"schema": 1, "workload": {"kind": "sparse"}})", "name: missing");
  expect_says(R"({"schema": 1, "name": "a/b", "workload": {"kind": "sparse"}})", "name: \"a/b\" is not legal");
  expect_says("[]", "[] is a list; a config is an object");
  expect_says(sparse_config("", R"("swep": {})"),
              "x.json:1: swep: unknown key \"swep\"; legal: schema, name, workload");
  expect_says(
      sparse_config("", R"("launch": "grahp")"),
      "launch: \"grahp\" is not legal; legal: one of auto, eager, plan, pdl, graph, fused; did you mean \"graph\"?");
  expect_says(sparse_config("", R"("timing": {"l2": "warm"})"),
              "timing.l2: \"warm\" is not legal; legal: one of cold, hot, both");
  expect_says(sparse_config("", R"("timing": {"rel_iqr": 2})"),
              "timing.rel_iqr: 2 is not legal; legal: a number above 0, at most 1");
  expect_says(sparse_config("", R"("variants": {"gahter": "rows"})"),
              "variants.gahter: unknown key \"gahter\"; legal: *, group_entries");
  expect_says(sparse_config("", R"("variants": {"gahter": "rows"})"), "did you mean \"gather\"?");
  expect_says(sparse_config("", R"("cases": [])"), "cases: [] is empty; expected a list of at least one case");
  expect_says(sparse_config("", R"("cases": [{"workload": {}}])"), "cases[0].name: missing");
  expect_says(sparse_config("", R"("cases": [{"name": "a"}, {"name": "a"}])"), "cases[1].name: \"a\" names two cases");
  expect_says(sparse_config("", R"("cases": [{"name": "a", "workload": {"chunk": 1}}])"),
              "cases[0].workload.chunk: 1 is not legal");
}

TEST(ConfigParse, Checks) {
  expect_says(sparse_config("", R"("checks": "guards")"), "checks: \"guards\" is a text; expected a list of checks");
  expect_says(sparse_config("", R"("checks": ["gaurds"])"),
              "checks[0]: unknown check \"gaurds\"; legal: replay, oracle");
  expect_says(sparse_config("", R"("checks": ["gaurds"])"), "did you mean \"guards\"?");
  expect_says(sparse_config("", R"("checks": [{"repeat": {"runs": 1}}])"),
              "checks[0].repeat.runs: 1 is not legal; legal: an integer from 2");
  expect_says(sparse_config("", R"("checks": [{"repeat": 3}])"),
              "checks[0].repeat: 3 is an integer; expected an object");
  expect_says(sparse_config("", R"("checks": [{"repeat": {"rums": 3}}])"),
              "unknown key \"rums\"; legal: runs; did you mean \"runs\"?");
  expect_says(sparse_config("", R"("checks": [{"guards": {"runs": 3}}])"), "the check guards has no options");
  expect_says(sparse_config("", R"("checks": [{"repeat": {}, "guards": {}}])"),
              "is no check; legal: a name or an object with one key");
  expect_says(sparse_config("", R"("checks": [7])"), "checks[0]: 7 is no check");
  expect_says(sparse_config("", R"("checks": ["agree", "agree"])"), "checks[1]: the check \"agree\" stands twice");
  expect_says(sparse_config("", R"("checks": [{"invariance": {"axes": ["chunk", "chunk"]}}])"), "each at most once");
  const Case c = cases_of(sparse_config(
      "",
      R"("checks": [{"repeat": {"runs": 5}}, {"oracle": {"round_bank": false}}, {"invariance": {"axes": ["chunk", "launch"]}}, {"disturbed": {}}])"))
      [0];
  EXPECT_EQ(c.checks[0].runs, 5);
  EXPECT_FALSE(c.checks[1].round_bank);
  EXPECT_EQ(c.checks[2].axes, (std::vector<std::string>{"chunk", "launch"}));
  EXPECT_EQ(c.checks[3].kind, CheckSpec::Kind::disturbed);
  EXPECT_EQ(c.checks[3].runs, 3);
}

TEST(ConfigParse, AllProblemsAtOnceWithTheirLines) {
  const std::string text = R"({ "schema": 1, "name": "many", // a comment
  "workload": {
    "kind": "sparse",
    "chunk": 300,
    /* two
       lines */ "wirtes": 4,
    "bank_dtype": "bf16", "snapshot": "bf16",
    "reads": 32, "slots": 16, "writes": 8,
    "reads": 32
  },
  "checks": [
    "guards",
    "nothing"
  ],
  "sweep": { "workload.tokens": [1,
    0] }
})";
  const std::string problems = problems_of(text);
  EXPECT_EQ(
      problems,
      "x.json:9: workload.reads: the key \"reads\" stands twice in one object\n"
      "x.json:4: workload.chunk: 300 is not legal; legal: an integer from 2 to 256\n"
      "x.json:6: workload.wirtes: unknown key \"wirtes\"; legal: kind, streams, batch, heads, tokens, chunk, writes, "
      "reads, "
      "head_dim, slots, bank_dtype, value_dtype, grad_dtype, weight_dtype, index_dtype, gate, snapshot, "
      "gather_saves, gradient_copy, final_bank_gradient, distribution, values, seed; did you mean \"writes\"?\n"
      "x.json:13: checks[1]: unknown check \"nothing\"; legal: replay, oracle, repeat, agree, invariance, "
      "bank_restored, "
      "guards, disturbed, half_device, fragmented, process, poison, baselines\n"
      "x.json:16: sweep.workload.tokens[1]: 0 is not legal; legal: an integer from 1 to 1073741824\n"
      "x.json:8: workload.reads: workload.reads 32 is more than workload.slots 16; the slots of a token are distinct\n"
      "x.json:7: workload.snapshot: workload.snapshot bf16 with workload.bank_dtype bf16; bf16 snapshots round an f32 "
      "bank; "
      "legal with bf16: per_entry, raw, fp8, int4");
}

TEST(ConfigParse, CopiesThatNothingMakesOrReads) {
  expect_says(sparse_config(R"("snapshot": "fp8", "gather_saves": true)"),
              "workload.gather_saves with workload.snapshot fp8");
  expect_says(sparse_config(R"("snapshot": "none", "gradient_copy": true)"),
              "workload.gradient_copy with workload.snapshot none");
  EXPECT_EQ(problems_of(sparse_config(R"("snapshot": "raw", "gather_saves": true, "gradient_copy": true)")), "");
}

TEST(ConfigParse, FilesThatCannotBeRead) {
  try {
    load_config("/nonexistent/config.json");
    FAIL();
  } catch (const ConfigErrors& errors) {
    EXPECT_EQ(std::string(errors.what()), "/nonexistent/config.json: cannot be read; expected a config file (JSON)");
  }
  EXPECT_THROW(load_config(SDM_SOURCE_DIR), ConfigErrors);  // a directory
}

TEST(ConfigParse, UserErrorsAreUserErrors) { EXPECT_THROW(parse_config("{}", "x"), UserError); }

}  // namespace
}  // namespace sdm
