// Memory that is not there, and memory that is not given back.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>

#include "process.h"
#include "tests/support/sanitized.h"

namespace sdm::test {
namespace {

using Json = nlohmann::json;

/// A case that fits, one of 1.2 GB, one that fits.
std::string three_sizes(const TempFolder& folder) {
  return folder.file("sizes.json", R"({"schema": 1, "name": "sizes",
    "workload": {"kind": "sparse", "streams": 1, "tokens": 8, "chunk": 4, "writes": 2, "reads": 2, "head_dim": 64},
    "sweep": {"workload.slots": [64, 4000000, 128]}, "checks": ["guards"]})");
}

void expect_oom_in_the_middle(const std::vector<std::string>& more) {
  TempFolder folder;
  std::vector<std::string> words = {"run", three_sizes(folder), "--device", "cpu",  "--threads",
                                    "2",   "--no-timing",       "--format", "json", "--quiet"};
  words.insert(words.end(), more.begin(), more.end());
  Process process(words, {}, [] {
    const rlimit limit{800u << 20, 800u << 20};
    ::setrlimit(RLIMIT_AS, &limit);
  });
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  const Json cases = Json::parse(outcome.out).at("cases");
  ASSERT_EQ(cases.size(), 3u);
  EXPECT_EQ(cases[0].at("status"), "ok") << cases[0].at("reason");
  EXPECT_EQ(cases[1].at("status"), "oom") << cases[1].at("reason");
  EXPECT_NE(cases[1].at("reason"), "");
  EXPECT_EQ(cases[2].at("status"), "ok") << cases[2].at("reason");
}

TEST(Memory, RunningOutCostsOneCase) {
  if (kSanitized) GTEST_SKIP() << "no limit on memory under a sanitizer";
  expect_oom_in_the_middle({});
}

TEST(Memory, RunningOutCostsOneCaseIsolated) {
  if (kSanitized) GTEST_SKIP() << "no limit on memory under a sanitizer";
  expect_oom_in_the_middle({"--isolate"});
}

// A thread's stack takes 8 MB of address space: a thousand do not fit, and those that do leave room for little else.
TEST(Memory, MoreThreadsThanFitEndNothing) {
  if (kSanitized) GTEST_SKIP() << "no limit on memory under a sanitizer";
  TempFolder folder;
  Process process({"run", folder.file("tiny.json", kTinyConfig), "--device", "cpu", "--threads", "1024", "--no-timing",
                   "--format", "json", "--quiet"},
                  {}, [] {
                    const rlimit limit{2u << 30, 2u << 30};
                    ::setrlimit(RLIMIT_AS, &limit);
                  });
  const Outcome outcome = process.wait();
  EXPECT_TRUE(outcome.code == 0 || outcome.code == 5) << outcome.code << ": " << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("run").at("status"), "finished");
}

/// Resident bytes of a process now.
std::int64_t resident(pid_t id) {
  std::ifstream file("/proc/" + std::to_string(id) + "/statm");
  std::int64_t pages = 0, resident_pages = 0;
  file >> pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

std::int64_t journal_lines(const fs::path& journal) {
  const std::string text = slurp(journal);
  return std::count(text.begin(), text.end(), '\n');
}

/// What a case leaves behind is its result, which the final document needs: some ten kilobytes. SDM_MEMORY_CASES sets
/// how many run (2000 in the longer form, docs/reliability.md).
TEST(Memory, ManyTinyCasesLeaveTheirResultsAlone) {
  if (kSanitized) GTEST_SKIP() << "sanitizers keep freed memory back";
  const char* asked = std::getenv("SDM_MEMORY_CASES");
  const int cases = asked ? std::atoi(asked) : 300;
  TempFolder folder;
  std::string seeds;
  for (int i = 1; i <= cases; ++i) seeds += (i > 1 ? "," : "") + std::to_string(i);
  const std::string file = folder.file("many.json", R"({"schema": 1, "name": "many",
    "workload": {"kind": "sparse", "streams": 1, "tokens": 8, "chunk": 4, "writes": 2, "reads": 2, "head_dim": 8, "slots": 16},
    "sweep": {"workload.seed": [)" + seeds + R"(]}, "checks": ["guards", "oracle"]})");
  const fs::path result = folder / "result.json", journal = folder / "result.json.journal";
  Process process({"run", file, "--device", "cpu", "--threads", "2", "--no-timing", "--quiet", "-o", result.string()});
  const int early = cases / 4, late = cases - cases / 20;
  ASSERT_TRUE(wait_until([&] { return journal_lines(journal) > early; }, 120));
  const std::int64_t lines_before = journal_lines(journal), before = resident(process.id());
  ASSERT_TRUE(wait_until([&] { return journal_lines(journal) > late; }, 600));
  const std::int64_t after = resident(process.id()), lines_after = journal_lines(journal);
  EXPECT_EQ(process.wait().code, 0);
  ASSERT_GT(lines_after, lines_before);
  const std::int64_t growth = (after - before) / (lines_after - lines_before);
  std::printf("%d cases: %lld KiB after %lld, %lld KiB after %lld: %lld bytes a case\n", cases,
              static_cast<long long>(before >> 10), static_cast<long long>(lines_before),
              static_cast<long long>(after >> 10), static_cast<long long>(lines_after), static_cast<long long>(growth));
  EXPECT_LT(growth, 40'000) << "bytes a case";
}

}  // namespace
}  // namespace sdm::test
