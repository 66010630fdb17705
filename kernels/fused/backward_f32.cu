#include "kernels/fused/backward_launch.cuh"

namespace sdm::fused {

std::string backward_f32(const Backward& pass, const LaunchContext& context, Action action) {
  using undo::RowCode;
  if (pass.undo.snapshot.format == SnapshotFormat::bf16)
    return run_backward<BackwardForm<float, float, RowCode::bf16>>(pass, context, action);
  return run_backward<BackwardForm<float, float, RowCode::raw>>(pass, context, action);
}

}  // namespace sdm::fused
