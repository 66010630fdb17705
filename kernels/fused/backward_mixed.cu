#include "kernels/fused/backward_launch.cuh"

namespace sdm::fused {

std::string backward_mixed(const Backward& pass, const LaunchContext& context, Action action) {
  return run_backward<BackwardForm<float, bf16_t, undo::RowCode::raw>>(pass, context, action);
}

}  // namespace sdm::fused
