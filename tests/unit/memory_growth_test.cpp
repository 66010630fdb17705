// A case gives back all that it took, counted by the allocator: one lost allocation a case shows.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>

#include "backend/backend.h"
#include "base/parallel.h"
#include "config/expand.h"
#include "run/case_runner.h"
#include "tests/support/sanitized.h"

namespace sdm {
namespace {

constexpr int kRounds = 20;
constexpr std::int64_t kAllowed = 1024;  // an allocation takes at least 32 bytes: 1920 if every case loses one

std::int64_t bytes_in_use() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
}

/// What kRounds * 3 cases leave behind. Up to three attempts, because a buffer that is kept may once need more room
/// than ever before (more samples on a busy machine), which is no loss.
std::int64_t bytes_left_behind() {
  const std::vector<Case> cases = parse_cases(R"({"schema": 1, "name": "g",
    "workload": {"kind": "sparse", "streams": 2, "tokens": 12, "chunk": 4, "writes": 3, "reads": 2, "head_dim": 8, "slots": 16},
    "sweep": {"workload.snapshot": ["raw", "fp8", "per_entry"]},
    "checks": ["guards", "bank_restored", {"repeat": {"runs": 2}}, "oracle"],
    "timing": {"min_samples": 3, "max_seconds": 0.001}})",
                                              "g.json");
  const std::unique_ptr<Backend> backend = make_host_backend(), host = make_host_backend();
  Parallel threads(1);  // one arena, so that the count is exact
  const CaseEnvironment environment{*backend, *host, threads};
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i)
      for (const Case& c : cases)
        if (run_case(c, environment).status != CaseStatus::ok) std::abort();
  };
  run(3);  // what is allocated once: the registry, the time stamps' buffer
  std::int64_t growth = kAllowed;
  for (int attempt = 0; attempt < 3 && growth >= kAllowed; ++attempt) {
    const std::int64_t before = bytes_in_use();
    run(kRounds);
    growth = bytes_in_use() - before;
  }
  return growth;
}

TEST(MemoryGrowthDeathTest, ACaseGivesBackAllThatItTook) {
  if (test::kSanitized) GTEST_SKIP() << "the sanitizer's allocator keeps no such count, and finds leaks itself";
  // In a process of its own without the allocator's thread cache: it keeps up to seven freed blocks of each size and
  // counts them as in use, which looked like a growth of up to 30 KiB that came to an end. Without it the count is what
  // is held.
  ::setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        const std::int64_t bytes = bytes_left_behind();
        std::fprintf(stderr, "%lld bytes left behind\n", static_cast<long long>(bytes));
        std::exit(bytes < kAllowed ? 0 : 1);
      },
      testing::ExitedWithCode(0), "bytes left behind");
  ::unsetenv("GLIBC_TUNABLES");
}

}  // namespace
}  // namespace sdm
