#include "kernels/fused/forward_launch.cuh"

namespace sdm::fused {

std::string forward_bf16(const Forward& pass, const LaunchContext& context, Action action) {
  return run_forward<bf16_t>(pass, context, action);
}

}  // namespace sdm::fused
