// Every mistake gets one clear sentence that names place, value and what would be legal, and exit code 2.
#include <gtest/gtest.h>

#include "backend/backend.h"
#include "process.h"

namespace sdm::test {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

/// Expects exit code 2, an empty stdout, and every word on stderr.
void expect_refused(const std::vector<std::string>& arguments, const std::vector<std::string>& words) {
  const Outcome outcome = bench(arguments);
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(outcome.err.rfind("sdm-bench: ", 0), 0u) << outcome.err;
  for (const std::string& word : words)
    EXPECT_NE(outcome.err.find(word), std::string::npos) << "no '" << word << "' in: " << outcome.err;
}

void expect_config_refused(const std::string& from, const std::string& to, const std::vector<std::string>& words) {
  TempFolder folder;
  const std::string path = folder.file("bad.json", replaced(kTinyConfig, from, to));
  for (const char* verb : {"check", "run", "list"}) expect_refused({verb, path}, words);
}

TEST(BadConfig, UnknownKey) {
  expect_config_refused("\"tokens\"", "\"tokns\"", {"bad.json:3", "tokns", "did you mean", "tokens"});
}
TEST(BadConfig, WrongType) {
  expect_config_refused("\"tokens\": 12", "\"tokens\": \"12\"", {"bad.json:3", "workload.tokens", "\"12\""});
}
TEST(BadConfig, DuplicateKey) {
  expect_config_refused("\"tokens\": 12", "\"tokens\": 12, \"tokens\": 13", {"bad.json:3", "tokens", "twice"});
}
TEST(BadConfig, OutOfRange) {
  expect_config_refused("\"head_dim\": 8", "\"head_dim\": 0", {"workload.head_dim", "0", "1048576"});
}
TEST(BadConfig, InvalidCombination) { expect_config_refused("\"slots\": 16", "\"slots\": 2", {"writes", "3", "2"}); }
TEST(BadConfig, NoJson) { expect_config_refused("\"schema\": 1,", "\"schema\" 1,", {"bad.json:2"}); }
TEST(BadConfig, UnknownCheck) {
  expect_config_refused("\"oracle\"", "\"oracel\"", {"oracel", "did you mean", "oracle"});
}
TEST(BadConfig, OtherSchema) { expect_config_refused("\"schema\": 1", "\"schema\": 9", {"schema", "9", "1"}); }

TEST(BadConfig, AllProblemsAtOnce) {
  TempFolder folder;
  std::string text = replaced(kTinyConfig, "\"tokens\": 12", "\"tokns\": 12");
  text = replaced(text, "\"head_dim\": 8", "\"head_dim\": -1");
  text = replaced(text, "\"oracle\"", "\"oracel\"");
  expect_refused({"check", folder.file("bad.json", text)}, {"tokns", "head_dim", "oracel"});
}

TEST(BadCommandLine, UnknownVerb) { expect_refused({"rnu"}, {"rnu", "did you mean", "run", "conform"}); }
TEST(BadCommandLine, NoVerb) { EXPECT_EQ(bench({}).code, 2); }
TEST(BadCommandLine, UnknownFlag) { expect_refused({"run", config("smoke"), "--quik"}, {"--quik"}); }
TEST(BadCommandLine, MissingConfig) { expect_refused({"run"}, {"CONFIG"}); }
TEST(BadCommandLine, MissingFile) {
  expect_refused({"run", "/nowhere/absent.json"}, {"/nowhere/absent.json", "cannot be read"});
}
TEST(BadCommandLine, UnknownFormat) {
  expect_refused({"run", config("smoke"), "--format", "jsn"}, {"jsn", "json", "csv"});
}
TEST(BadCommandLine, UnknownColour) {
  expect_refused({"run", config("smoke"), "--color", "sometimes"}, {"sometimes", "auto", "never"});
}
TEST(BadCommandLine, UnknownDevice) {
  expect_refused({"run", config("smoke"), "--device", "gpu"}, {"gpu", "auto", "cpu", "cuda"});
}
TEST(BadCommandLine, SetWithoutValue) {
  expect_refused({"run", config("smoke"), "--set", "workload.tokens"}, {"workload.tokens", "="});
}
TEST(BadCommandLine, SetOfUnknownPath) {
  expect_refused({"check", config("smoke"), "--set", "workload.tokns=3"}, {"workload.tokns", "did you mean"});
}
TEST(BadCommandLine, SetOutOfRange) {
  expect_refused({"check", config("smoke"), "--set", "workload.chunk=1"}, {"chunk", "1", "256"});
}
TEST(BadCommandLine, FilterWithoutMatch) {
  expect_refused({"run", config("smoke"), "--filter", "nothing"}, {"nothing", "smoke/"});
}
TEST(BadCommandLine, FilterThatIsNoExpression) {
  expect_refused({"run", config("smoke"), "--filter", "("}, {"regular expression"});
}
TEST(BadCommandLine, FilterThatIsEndless) {
  expect_refused({"run", config("smoke"), "--filter", std::string(30000, '(') + std::string(30000, ')')},
                 {"60000 characters"});
}
TEST(BadCommandLine, NumbersThatAreNone) {
  for (const char* text : {"nan", "inf", "-1", "0", "1x", "0x1p3"}) {
    expect_refused({"run", config("smoke"), "--max-determinism-cost", text},
                   {"--max-determinism-cost", text, "above 0"});
    expect_refused({"roof", "--seconds", text}, {"--seconds", text, "above 0"});
  }
  expect_refused({"compare", "a", "b", "--relative", "nan"}, {"--relative", "'nan'", "from 0"});
  expect_refused({"compare", "a", "b", "--absolute-us", "-1"}, {"--absolute-us", "'-1'", "from 0"});
  for (const char* text : {"-1", "1.5", "18446744073709551616"})
    expect_refused({"run", config("smoke"), "--seed", text}, {"--seed", text, "an integer from 0"});
}
TEST(BadCommandLine, ThreadsOutOfRange) { expect_refused({"run", config("smoke"), "--threads", "-1"}, {"--threads"}); }

// Of two flags none may silently do nothing.
TEST(BadCommandLine, FlagsThatDoNotGoTogether) {
  const std::vector<std::string> ab = {"--ab", "launch=eager"}, price = {"--max-determinism-cost", "2"},
                                 geometry = {"--geometry", "tile=8"}, plant = {"--plant", "missed_element"};
  const std::vector<std::string> isolate = {"--isolate"}, profile = {"--profile"}, calibrate = {"--calibrate"};
  const std::vector<std::string> no_timing = {"--no-timing"}, no_checks = {"--no-checks"};
  for (const auto& [one, other] : {std::pair{isolate, profile},
                                   {ab, isolate},
                                   {ab, profile},
                                   {ab, no_timing},
                                   {ab, calibrate},
                                   {ab, geometry},
                                   {ab, plant},
                                   {ab, price},
                                   {profile, calibrate},
                                   {profile, price},
                                   {profile, plant},
                                   {no_timing, calibrate},
                                   {no_checks, price}}) {
    std::vector<std::string> words = {"run", config("smoke"), "--device", "cpu"};
    words.insert(words.end(), one.begin(), one.end());
    words.insert(words.end(), other.begin(), other.end());
    expect_refused(words, {one[0], other[0], "do not go together"});
  }
}

TEST(BadCommandLine, OutputFolderMissing) {
  TempFolder folder;
  const std::string path = (folder / "absent").string() + "/result.json";
  expect_refused({"run", config("smoke"), "--device", "cpu", "-o", path}, {path});
}

TEST(BadCommandLine, OutputExists) {
  TempFolder folder;
  const std::string path = folder.file("result.json", "kept");
  expect_refused({"run", config("smoke"), "--device", "cpu", "-o", path}, {path, "--force"});
  EXPECT_EQ(slurp(path), "kept");
}

TEST(BadCommandLine, NoResultFile) {
  TempFolder folder;
  expect_refused({"report", folder.file("x.json", "{}")}, {"x.json"});
  expect_refused({"report", (folder / "absent.json").string()}, {"absent.json"});
}

TEST(NoGpu, AskedForByNameIsExitCode77) {
  if (!list_gpus().devices.empty()) GTEST_SKIP() << "a GPU is here";
  for (const char* device : {"cuda", "cuda:0", "GPU-00000000-0000-0000-0000-000000000000"}) {
    const Outcome outcome = bench({"run", config("smoke"), "--device", device});
    EXPECT_EQ(outcome.code, 77) << device << ": " << outcome.err;
    EXPECT_NE(outcome.err.find("no usable GPU"), std::string::npos) << outcome.err;
  }
}

TEST(NoGpu, AutoIsTheReplay) {
  if (!list_gpus().devices.empty()) GTEST_SKIP() << "a GPU is here";
  TempFolder folder;
  const Outcome outcome =
      bench({"run", folder.file("tiny.json", kTinyConfig), "--no-timing", "--format", "json", "--quiet"});
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\"replay\""), std::string::npos);
}

}  // namespace
}  // namespace sdm::test
