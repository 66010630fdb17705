#include "backend/backend.h"

#include <gtest/gtest.h>

#include "backend/architecture.h"
#include "backend/nvml.h"
#include "base/error.h"

namespace sdm {
namespace {

TEST(Gpus, AreAListOrAReason) {
  GpuList list;
  ASSERT_NO_THROW(list = list_gpus());
  EXPECT_NE(list.devices.empty(), list.why_none.empty()) << list.why_none;
  for (const DeviceInfo& device : list.devices) EXPECT_EQ(device.kind, "cuda");
}

TEST(Gpus, ABackendForNoneIsRefusedWithTheReason) {
  const GpuList list = list_gpus();
  if (!list.devices.empty()) GTEST_SKIP() << "there is a GPU";
  try {
    make_cuda_backend(0, false);
    FAIL() << "a backend without a GPU";
  } catch (const Unsupported& error) {
    EXPECT_EQ(error.what(), list.why_none);
  }
}

TEST(Gpus, AToolkitHasArchitectures) { EXPECT_EQ(cuda_toolkit_version().empty(), cuda_architectures().empty()); }

TEST(Gpus, RunCodeOfTheirOwnMajorAndPtxOfOlderOnes) {
  EXPECT_TRUE(runs_on("80-real", 80) && runs_on("80-real", 86) && runs_on("89-real", 89));
  EXPECT_FALSE(runs_on("80-real", 90) || runs_on("89-real", 86));
  EXPECT_TRUE(runs_on("90a-real", 90));
  EXPECT_FALSE(runs_on("90a-real", 100) || runs_on("90a", 103) || runs_on("100a-virtual", 103));
  EXPECT_TRUE(runs_on("100f-real", 103) && runs_on("100-real", 103));
  EXPECT_FALSE(runs_on("100f-real", 120));
  EXPECT_TRUE(runs_on("90-virtual", 120) && runs_on("120", 120) && runs_on("120", 130));
  EXPECT_FALSE(runs_on("120", 90));
  EXPECT_TRUE(runs_on("native", 90));
}

TEST(Nvml, WithoutTheGpuEveryValueIsMissing) {
  const Nvml nvml("ffff:ff:1f.7");
  EXPECT_FALSE(nvml.available());
  EXPECT_FALSE(nvml.sm_clock_mhz() || nvml.max_sm_clock_mhz() || nvml.memory_clock_mhz() || nvml.temperature_c());
  EXPECT_FALSE(nvml.other_processes(false));
  EXPECT_TRUE(nvml.throttle_reasons().empty());
}

TEST(Nvml, ThrottleReasonsAreWords) {
  EXPECT_TRUE(throttle_words(0).empty());
  EXPECT_EQ(throttle_words(0x44), (std::vector<std::string>{"software power cap", "hardware thermal slowdown"}));
  EXPECT_EQ(throttle_words(0x1001), (std::vector<std::string>{"idle", "reason 0x1000"}));
}

}  // namespace
}  // namespace sdm
