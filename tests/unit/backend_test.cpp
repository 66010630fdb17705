#include "backend/backend.h"

#include <gtest/gtest.h>

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
