// Shapes at the edges of what is legal, through the whole tool: what is small enough runs, what is too large is refused
// by estimate, with numbers that did not overflow.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "process.h"

namespace sdm::test {
namespace {

using Json = nlohmann::json;

void expect_ok(const std::string& filter, std::size_t count, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"run",      config("limits"), "--device", "cpu",      "--no-timing", "--quick",
                                    "--format", "json",           "--quiet",  "--filter", filter};
  words.insert(words.end(), more.begin(), more.end());
  const Outcome outcome = bench(words);
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  const Json cases = Json::parse(outcome.out).at("cases");
  EXPECT_EQ(cases.size(), count);
  for (const Json& c : cases) EXPECT_EQ(c.at("status"), "ok") << c.at("id") << ": " << c.at("reason");
}

TEST(Limits, TheSmallEndRuns) { expect_ok("longest_chunk|smallest|every_slot", 3); }

/// A hundred megabytes for two tokens: once is enough.
TEST(Limits, TheLongestRowRuns) { expect_ok("longest_row$", 1, {"--no-checks"}); }

std::uint64_t memory_of(const Json& cases, const std::string& id) {
  for (const Json& c : cases)
    if (c.at("id") == "limits/" + id) return std::stoull(c.at("memory_bytes").get<std::string>());
  ADD_FAILURE() << "no case " << id;
  return 0;
}

TEST(Limits, EstimatesDoNotOverflow) {
  const Outcome outcome = bench({"list", config("limits"), "--json"});
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const Json cases = Json::parse(outcome.out);
  constexpr std::uint64_t kRows = 2147483647, kMany = std::uint64_t{8} * 65536 * 4224;
  EXPECT_GE(memory_of(cases, "most_rows"), 2 * kRows * 2);
  EXPECT_GE(memory_of(cases, "most_rows_wider"), 2 * kRows * 4 * 2);
  EXPECT_LT(memory_of(cases, "most_rows_wider"), 5 * kRows * 4 * 2);
  EXPECT_GE(memory_of(cases, "elements_over_2e31"), 3 * kMany * 2) << "bank, gradient, snapshot";
  constexpr std::uint64_t kTokenTensor = std::uint64_t{2} * 1040 * 1048576 * 4;
  EXPECT_GE(memory_of(cases, "token_elements_over_2e31"), 10 * kTokenTensor);
  EXPECT_GE(memory_of(cases, "snapshot_rows_over_2e31"), std::uint64_t{64} * 131328 * 256 * 2);
}

/// 64 GiB a bank and more: on a machine with less the sentence says both numbers, and nothing was allocated.
TEST(Limits, MostRowsAreRefusedWhereTheyDoNotFit) {
  const Outcome outcome = bench({"run", config("limits"), "--device", "cpu", "--no-timing", "--quick", "--format",
                                 "json", "--quiet", "--filter", "most_rows$", "--set", "workload.head_dim=1048576"});
  EXPECT_EQ(outcome.code, 5) << outcome.err;
  const Json c = Json::parse(outcome.out).at("cases").at(0);
  EXPECT_EQ(c.at("status"), "oom");
  EXPECT_NE(c.at("reason").get<std::string>().find("PiB"), std::string::npos) << c.at("reason");
}

TEST(Limits, OneBeyondIsRefusedWithTheBound) {
  const std::pair<const char*, const char*> beyond[] = {{"workload.slots=2147483648", "2147483647"},
                                                        {"workload.head_dim=1048577", "1048576"},
                                                        {"workload.chunk=257", "256"},
                                                        {"workload.writes=257", "256"},
                                                        {"workload.reads=257", "256"}};
  for (const auto& [set, bound] : beyond) {
    const Outcome outcome = bench({"check", config("limits"), "--filter", "smallest", "--set", set});
    EXPECT_EQ(outcome.code, 2) << set;
    EXPECT_NE(outcome.err.find(bound), std::string::npos) << outcome.err;
  }
}

}  // namespace
}  // namespace sdm::test
