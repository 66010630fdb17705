// A case gives back all that it took: counted by the allocator. A lost kilobyte a case shows.
#include <gtest/gtest.h>
#include <malloc.h>

#include "backend/backend.h"
#include "base/parallel.h"
#include "config/expand.h"
#include "run/case_runner.h"
#include "tests/support/sanitized.h"

namespace sdm {
namespace {

std::size_t bytes_in_use() {
  const struct mallinfo2 info = ::mallinfo2();
  return info.uordblks + info.hblkhd;
}

TEST(MemoryGrowth, ACaseGivesBackAllThatItTook) {
  if (test::kSanitized) GTEST_SKIP() << "the sanitizer's allocator keeps no such count, and finds leaks itself";
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
      for (const Case& c : cases) ASSERT_EQ(run_case(c, environment).status, CaseStatus::ok);
  };
  run(3);  // what is allocated once: the registry, the time stamps' buffer
  const std::size_t before = bytes_in_use();
  run(40);
  const auto growth = static_cast<std::int64_t>(bytes_in_use()) - static_cast<std::int64_t>(before);
  EXPECT_LT(growth, 64 << 10) << "bytes left behind by 120 cases: half a kilobyte each would show";
}

}  // namespace
}  // namespace sdm
