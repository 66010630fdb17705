#pragma once
// From the stages' parameters to the backward kernel.
#include "kernels/fused/backward.cuh"
#include "kernels/fused/launch.cuh"
#include "kernels/fused/passes.h"

namespace sdm::fused {

template <typename F>
BackwardArgs backward_args(const Backward& pass, const LaunchContext& context) {
  namespace rows = gather_grad::device_rows;
  const Dims& dims = pass.undo.dims;
  LaunchContext own = context;
  own.geometry = {.warps = kThreads / 32};  // a row plan of kThreads
  const RowPlan plan = rows::plan_of(bind_step(pass.gather_grad, 0), own);
  const std::size_t limit = shared_limit(context.device, ctas_wanted(context));
  BackwardArgs args{};
  args.dims = dims;
  args.team = teams_of(dims, context);
  args.counters = pass.counters;
  args.gather_grad = rows::args_of(bind_step(pass.gather_grad, 0), plan);
  args.mix_grad = pass.mix_grad;
  args.undo = pass.undo;
  args.read_grad = pass.read_grad;
  args.undo_walk = cut_walk(undo_needs(dims, F::kUndoBytes), args.team, limit);
  args.read_walk = cut_walk(read_needs(dims, F::kReadBytes), args.team, limit);
  return args;
}

template <typename F>
std::string run_backward(const Backward& pass, const LaunchContext& context, Action action) {
  const BackwardArgs args = backward_args<F>(pass, context);
  const std::size_t bytes =
      std::max({args.gather_grad.plan.shared_bytes(), args.undo_walk.shared_bytes, args.read_walk.shared_bytes,
                sizeof(device::TileMemory<MixTile, device::Triangle::transposed, 1>)});
  const device::LaunchShape shape = shape_of(args.team, bytes);
  if (action == Action::refuse_residency) return refuse_residency(backward_kernel<F>, shape, context.device);
  if (action == Action::describe) return describe(args.team);
  launch_team(backward_kernel<F>, shape, context, args);
  return "";
}

}  // namespace sdm::fused
