// File names, texts and locales that other programs stumble over.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "process.h"

namespace sdm::test {
namespace {

using Json = nlohmann::json;

const std::vector<std::string> kOddNames = {
    "with space",     "it's \"quoted\"", "new\nline", "-leading-dash", "tab\there",
    "\xff\xfe bytes", "käse 测试 😀",     "a;b|c&d",   "%s %n {}",      "[x]*?"};

TEST(Names, OddConfigAndResultNamesWork) {
  for (const std::string& name : kOddNames) {
    SCOPED_TRACE(name);
    TempFolder folder;
    const std::string file = folder.file(name + ".json", kTinyConfig);
    const std::string result = (folder / ("result " + name + ".json")).string();
    const Outcome run = bench({"run", file, "--device", "cpu", "--no-timing", "-o", result});
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(Json::parse(slurp(result)).at("cases").size(), 2u) << "valid UTF-8, whatever argv was";
    EXPECT_EQ(bench({"report", result}).code, 0);
    EXPECT_EQ(bench({"compare", result, result, "--digests"}).code, 0);
    EXPECT_EQ(bench({"run", file, "--device", "cpu", "--no-timing", "-o", result}).code, 2) << "it exists";
  }
}

TEST(Names, ALeadingDashInTheWorkingFolder) {
  TempFolder folder;
  folder.file("-tiny.json", kTinyConfig);
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  const Outcome outcome = bench({"run", "--device", "cpu", "--no-timing", "--output=-result.json", "--", "-tiny.json"});
  fs::current_path(before);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(folder / "-result.json"));
}

TEST(Names, AMistakeInAnOddlyNamedFileIsOneSentence) {
  for (const std::string& name : kOddNames) {
    TempFolder folder;
    const Outcome outcome = bench({"check", folder.file(name, "{ \"schema\": 1, }")});
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  }
}

TEST(Names, CapturedInputsOfAnOddName) {
  for (const std::string& name : kOddNames) {
    SCOPED_TRACE(name);
    TempFolder folder;
    const std::string tiny = folder.file("tiny.json", kTinyConfig), out = (folder / name).string();
    const Outcome gen = bench({"gen", tiny, "--out", out, "--filter", "chunk=4"});
    ASSERT_EQ(gen.code, 0) << gen.err;
    if (name.find('\xff') != std::string::npos) continue;  // JSON holds UTF-8: a config cannot name such a file
    const Outcome replay = bench({"run", out + "/replay.json", "--device", "cpu", "--no-timing"});
    EXPECT_EQ(replay.code, 0) << replay.err;
    const Outcome isolated = bench({"run", out + "/replay.json", "--device", "cpu", "--no-timing", "--isolate"});
    EXPECT_EQ(isolated.code, 0) << isolated.err;
  }
}

TEST(Names, AByteOrderMarkIsNoText) {
  TempFolder folder;
  const std::string mark = "\xef\xbb\xbf";
  const std::string file = folder.file("bom.json", mark + kTinyConfig), result = (folder / "r.json").string();
  ASSERT_EQ(bench({"run", file, "--device", "cpu", "--no-timing", "-o", result}).code, 0);
  const std::string marked = folder.file("marked.json", mark + slurp(result));
  EXPECT_EQ(bench({"report", marked}).code, 0);
  const std::string limits = folder.file("limits.json", mark + R"({"schema": 1, "min_samples": 3})");
  EXPECT_EQ(bench({"compare", result, marked, "--thresholds", limits, "--digests"}).code, 0);
}

TEST(Names, TextThatIsNoUtf8IsRefusedByByteAndLine) {
  TempFolder folder;
  std::string text = kTinyConfig;
  text.insert(text.find("tiny"), "\xc3(");
  const Outcome outcome = bench({"check", folder.file("latin.json", text)});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("0xc3"), std::string::npos) << outcome.err;
}

/// For between single quotes of a shell.
std::string replaced_quote(std::string text) {
  for (std::size_t at = 0; (at = text.find('\'', at)) != std::string::npos; at += 4) text.replace(at, 1, "'\\''");
  return text;
}

TEST(Names, TheCommandOfAFailedCheckWorksAgain) {
  TempFolder folder;
  for (const char* name : {"it's a $config.json", "-dash.json"}) {
    folder.file(name, kTinyConfig);
    const auto in_folder = [&](const std::string& command) {
      const std::string all = "cd '" + (folder / "").string() + "' && " + command + " >out 2>err";
      const int status = std::system(all.c_str());
      return WEXITSTATUS(status);
    };
    const std::string run =
        "'" SDM_BENCH_PATH "' run --device cpu --no-timing --plant nan_output --set workload.slots=17";
    EXPECT_EQ(in_folder(run + " --format json -- '" + replaced_quote(name) + "'"), 1) << slurp(folder / "err");
    std::string again;
    const Json report = Json::parse(slurp(folder / "out"));
    for (const Json& c : report.at("cases"))
      for (const Json& check : c.at("checks"))
        if (check.at("status") == "failed") again = check.at("rerun");
    ASSERT_EQ(again.rfind("sdm-bench run ", 0), 0u) << again;
    EXPECT_EQ(in_folder("'" SDM_BENCH_PATH "'" + again.substr(9)), 1) << again << "\n" << slurp(folder / "err");
    EXPECT_NE(slurp(folder / "err").find("[1/1]"), std::string::npos) << slurp(folder / "err");
  }
}

/// A locale with a decimal comma, made for the test where the machine has none.
std::vector<std::string> comma_locale(const TempFolder& folder) {
  const std::string place = (folder / "locales").string();
  fs::create_directory(place);
  const std::string command = "localedef -i de_DE -f UTF-8 '" + place + "/de_DE.UTF-8' >/dev/null 2>&1";
  if (std::system(command.c_str()) != 0 && !fs::exists(place + "/de_DE.UTF-8/LC_NUMERIC"))
    return {"LC_ALL=de_DE.UTF-8"};
  return {"LOCPATH=" + place, "LC_ALL=de_DE.UTF-8", "LANG=de_DE.UTF-8"};
}

TEST(Names, ADecimalCommaChangesNothing) {
  TempFolder folder;
  const std::string file = folder.file("tiny.json", kTinyConfig);
  for (const std::vector<std::string>& locale :
       {comma_locale(folder), {"LC_ALL=tr_TR.UTF-8"}, {"LC_ALL=C"}, {"LC_ALL=nonsense"}}) {
    const Outcome outcome = bench({"run", file, "--device", "cpu", "--format", "json", "--quiet", "--set",
                                   "timing.max_seconds=0.02", "--set", "timing.rel_iqr=0.5"},
                                  locale);
    ASSERT_EQ(outcome.code, 0) << outcome.err;
    const Json report = Json::parse(outcome.out);
    EXPECT_EQ(report.at("effective_config").dump().find("0,02"), std::string::npos);
    const std::string result = (folder / "r.json").string();
    spill(result, outcome.out);
    for (const char* format : {"csv", "md", "gbench", "junit"}) {
      const Outcome with = bench({"report", result, "--format", format}, locale),
                    without = bench({"report", result, "--format", format}, {"LC_ALL=C"});
      EXPECT_EQ(with.out, without.out) << format;
    }
    EXPECT_EQ(bench({"compare", result, result, "--relative", "0.05", "--absolute-us", "0.5"}, locale).code, 0);
  }
}

}  // namespace
}  // namespace sdm::test
