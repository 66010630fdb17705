#include "kernels/fused/backward_launch.cuh"

namespace sdm::fused {

std::string backward_bf16(const Backward& pass, const LaunchContext& context, Action action) {
  using undo::RowCode;
  switch (pass.undo.snapshot.format) {
    case SnapshotFormat::fp8: return run_backward<BackwardForm<bf16_t, bf16_t, RowCode::fp8>>(pass, context, action);
    case SnapshotFormat::int4: return run_backward<BackwardForm<bf16_t, bf16_t, RowCode::int4>>(pass, context, action);
    default: return run_backward<BackwardForm<bf16_t, bf16_t, RowCode::raw>>(pass, context, action);
  }
}

}  // namespace sdm::fused
