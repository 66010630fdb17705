// Output that cannot be written: told before anything is measured where that can be known, and in one sentence with the
// place of the results where it cannot.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "process.h"

namespace sdm::test {
namespace {

using Json = nlohmann::json;

std::vector<std::string> run_to(const std::string& config_file, const std::string& result) {
  return {"run", config_file, "--device", "cpu", "--no-timing", "-o", result};
}

std::size_t lines_of_errors(const std::string& err) {
  std::size_t count = 0;
  for (std::size_t at = 0; (at = err.find("sdm-bench: ", at)) != std::string::npos; ++at) ++count;
  return count;
}

/// Where a sentence says that the results are: after "are in ", up to the next comma or line end.
std::string place_in(const std::string& err) {
  const std::string words = "results are in ";
  const std::size_t begin = err.rfind(words);
  if (begin == std::string::npos) return "";
  return err.substr(begin + words.size(), err.find_first_of(",\n", begin) - begin - words.size());
}

TEST(Disk, FullStdoutIsAnError) {
  TempFolder folder;
  const std::string tiny = folder.file("tiny.json", kTinyConfig);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"run", tiny, "--device", "cpu", "--no-timing", "-o", "/dev/full"},
        {"list", "-o", "/dev/full"},
        {"env", "--json", "-o", "/dev/full"}}) {
    const Outcome outcome = bench(words);
    EXPECT_EQ(outcome.code, 2) << outcome.err;
    EXPECT_NE(outcome.err.find("No space left"), std::string::npos) << outcome.err;
    EXPECT_EQ(lines_of_errors(outcome.err), 1u) << outcome.err;
  }
  Process to_full({"list"}, {}, [] { ::dup2(::open("/dev/full", O_WRONLY), STDOUT_FILENO); });
  EXPECT_EQ(to_full.wait().code, 2) << "stdout itself";
}

TEST(Disk, WhatRanIsRescuedWhereTheOutputCannotBeWritten) {
  TempFolder folder;
  const Outcome outcome =
      bench(run_to(folder.file("tiny.json", kTinyConfig), "/dev/full"), {"TMPDIR=" + folder.path().string()});
  EXPECT_EQ(outcome.code, 2);
  const std::string rescued = place_in(outcome.err);
  ASSERT_TRUE(fs::exists(rescued)) << outcome.err;
  EXPECT_EQ(Json::parse(slurp(rescued)).at("cases").size(), 2u);
}

/// Files may not grow beyond a few KB: to a program that is a disk which fills up while it runs.
TEST(Disk, AFileThatMayNotGrowLosesNothing) {
  TempFolder folder;
  const std::string result = (folder / "result.json").string();
  Process process(run_to(folder.file("tiny.json", kTinyConfig), result), {"TMPDIR=/nowhere"}, [] {
    const rlimit limit{12000, 12000};  // header and one case, not two
    ::setrlimit(RLIMIT_FSIZE, &limit);
  });
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_EQ(lines_of_errors(outcome.err), 1u) << outcome.err;
  EXPECT_EQ(place_in(outcome.err), "") << "nowhere whole: " << outcome.err;
  EXPECT_NE(outcome.err.find("found room are in " + result + ".journal"), std::string::npos) << outcome.err;
  EXPECT_FALSE(fs::exists(result)) << "a torn result";
  const Outcome report = bench({"report", result + ".journal", "--format", "json"});
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_EQ(Json::parse(report.out).at("cases").size(), 1u) << "the case that found room, and no half of the other";
}

class SmallDisk : public testing::Test {
 protected:
  void SetUp() override {
    const std::string place = (folder_ / "disk").string();
    fs::create_directory(place);
    if (::mount("tmpfs", place.c_str(), "tmpfs", 0, "size=24k") != 0) GTEST_SKIP() << "needs the right to mount";
    mounted_ = place;
  }
  void TearDown() override {
    if (!mounted_.empty()) ::umount2(mounted_.c_str(), MNT_DETACH);
  }
  TempFolder folder_;
  std::string mounted_;
};

TEST_F(SmallDisk, AFullDiskLosesNothing) {
  const std::string result = mounted_ + "/result.json";
  const Outcome outcome =
      bench(run_to(folder_.file("tiny.json", kTinyConfig), result), {"TMPDIR=" + folder_.path().string()});
  EXPECT_EQ(outcome.code, 2) << outcome.err;
  EXPECT_NE(outcome.err.find("No space left"), std::string::npos) << outcome.err;
  const std::string saved = place_in(outcome.err);
  ASSERT_TRUE(fs::exists(saved)) << outcome.err;
  const Outcome report = bench({"report", saved, "--format", "json"});
  ASSERT_EQ(report.code, 0) << report.err;
  EXPECT_EQ(Json::parse(report.out).at("cases").size(), 2u);
}

TEST_F(SmallDisk, AReadOnlyDiskIsToldBeforeTheFirstCase) {
  ASSERT_EQ(::mount("tmpfs", mounted_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=24k"), 0);
  const Outcome outcome = bench(run_to(folder_.file("tiny.json", kTinyConfig), mounted_ + "/result.json"));
  EXPECT_EQ(outcome.code, 2);
  EXPECT_NE(outcome.err.find("Read-only"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("[1/"), std::string::npos) << "a case ran first: " << outcome.err;
}

}  // namespace
}  // namespace sdm::test
