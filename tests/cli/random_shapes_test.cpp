// scripts/random_shapes.py: what it prints is legal, holds on the replay, and notices a fault.
#include <gtest/gtest.h>

#include <random>

#include "tests/cli/compare_support.h"

namespace sdm::test {
namespace {

class RandomShapes : public testing::Test {
 protected:
  void SetUp() override {
    if (folder_.shell("python3 -c ''").exit_code != 0) GTEST_SKIP() << "no python3 here";
  }
  ToolRun shapes(const std::string& arguments) const {
    return folder_.shell("python3 " + std::string(SDM_SOURCE_DIR) + "/scripts/random_shapes.py " + arguments);
  }
  ToolRun run(const std::string& config, const std::string& more = "") const {
    return folder_.tool("run " + folder_.write("shapes.json", config) + " --device cpu --no-timing --quiet " + more);
  }
  ScratchFolder folder_;
};

TEST_F(RandomShapes, HoldOnTheReplay) {
  const unsigned seed = std::random_device{}() % 1'000'000 + 1;
  SCOPED_TRACE("random_shapes.py 2 " + std::to_string(seed));
  const ToolRun printed = shapes("2 " + std::to_string(seed));
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  const ToolRun ran = run(printed.out);
  EXPECT_EQ(ran.exit_code, 0) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("2 cases: 2 passed"), std::string::npos) << ran.out;
}

TEST_F(RandomShapes, NoticeAFault) {
  const ToolRun ran = run(shapes("2 5").out, "--plant nan_output");
  EXPECT_EQ(ran.exit_code, 1) << ran.out << ran.err;
  EXPECT_NE(ran.out.find("0 passed, 2 failed"), std::string::npos) << ran.out;
}

TEST_F(RandomShapes, AreThoseOfTheSeed) {
  EXPECT_EQ(shapes("3 11").out, shapes("3 11").out);
  EXPECT_NE(shapes("3 11").out, shapes("3 12").out);
  EXPECT_NE(shapes("3 11").out.find("random_shapes_11"), std::string::npos);
  for (const char* wrong : {"0", "few", "3 -1", "1 2 3"}) {
    const ToolRun refused = shapes(wrong);
    EXPECT_EQ(refused.exit_code, 1) << wrong;
    EXPECT_NE(refused.err.find("usage: random_shapes.py"), std::string::npos) << wrong;
  }
}

}  // namespace
}  // namespace sdm::test
