#include "kernels/fused/forward_launch.cuh"

namespace sdm::fused {

std::string forward_f32(const Forward& pass, const LaunchContext& context, Action action) {
  return run_forward<float>(pass, context, action);
}

}  // namespace sdm::fused
