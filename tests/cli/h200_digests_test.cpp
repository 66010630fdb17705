// The GPU's claim, confirmed without a GPU: the digests that an H200 left in results/h200/correctness.json are derived
// again by the host replay, tensor by tensor.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "process.h"

namespace sdm::test {
namespace {

const char* const kH200Result = SDM_SOURCE_DIR "/results/h200/correctness.json";

Outcome compare_digests(const std::string& replayed) {
  return bench({"compare", kH200Result, "--digests", "--require-all", "--", replayed});
}

TEST(H200Digests, TheReplayDerivesEveryOne) {
  const TempFolder folder;
  const std::string replayed = (folder / "replay.json").string();
  const Outcome run =
      bench({"run", config("correctness"), "--device", "cpu", "--no-timing", "--no-checks", "-q", "-o", replayed});
  ASSERT_EQ(run.code, 0) << run.err;
  const nlohmann::json h200 = nlohmann::json::parse(slurp(kH200Result));
  EXPECT_EQ(h200.at("devices").at(0).at("kind"), "cuda");
  EXPECT_GE(h200.at("cases").size(), 80u);
  const Outcome outcome = compare_digests(replayed);
  EXPECT_EQ(outcome.code, 0) << outcome.out << outcome.err;

  // And a changed digest is noticed.
  nlohmann::json forged = nlohmann::json::parse(slurp(replayed));
  std::string hex = forged.at("cases").at(7).at("digests").at("write").at("bank");
  hex[0] = hex[0] == '0' ? '1' : '0';
  forged["cases"][7]["digests"]["write"]["bank"] = hex;
  EXPECT_EQ(compare_digests(folder.file("forged.json", forged.dump())).code, 1);
}

}  // namespace
}  // namespace sdm::test
