#pragma once
// From the stages' parameters to the forward kernel.
#include "kernels/fused/forward.cuh"
#include "kernels/fused/launch.cuh"
#include "kernels/fused/passes.h"

namespace sdm::fused {

inline ForwardArgs forward_args(const Forward& pass, const LaunchContext& context, int columns) {
  namespace rows = gather::device_rows;
  const Dims& dims = pass.gather.dims;
  LaunchContext own = context;
  own.geometry = {.warps = kThreads / 32};  // a row plan of kThreads
  const RowPlan plan = rows::plan_of(bind_step(pass.gather, 0), own);
  ForwardArgs args{};
  args.dims = dims;
  args.team = teams_of(dims, context);
  args.counters = pass.counters;
  args.gather = rows::args_of(bind_step(pass.gather, 0), plan, context.device);
  args.mix = pass.mix;
  args.write = pass.write;
  args.engine = context.device.has_copy_engine();
  args.cut = cut_write(dims, args.team, columns, columns * static_cast<int>(size_of(pass.write.bank.dtype)) / 16);
  return args;
}

/// Calls body.operator()<Form>() for the pass's snapshot and column block.
template <typename T, typename Body>
void dispatch_form(const Forward& pass, int columns, Body&& body) {
  using write::Save;
  dispatch_value<64, 128>(columns, [&]<int kColumns>() {
    if (pass.gather.stash.format != SnapshotFormat::none)
      return body.template operator()<ForwardForm<T, kColumns, Save::none, true>>();
    const Save save = write::save_of(pass.write.snapshot);
    if constexpr (sizeof(T) == 4)
      if (save == Save::bf16) return body.template operator()<ForwardForm<T, kColumns, Save::bf16, false>>();
    dispatch_value<Save::none, Save::raw, Save::fp8, Save::int4>(
        save, [&]<Save kSave>() { body.template operator()<ForwardForm<T, kColumns, kSave, false>>(); });
  });
}

template <typename T>
std::string run_forward(const Forward& pass, const LaunchContext& context, Action action) {
  const Dims& dims = pass.gather.dims;
  const int columns = write_columns(dims, shared_limit(context.device, ctas_wanted(context)));
  const ForwardArgs args = forward_args(pass, context, columns);
  const std::size_t bytes =
      std::max({kBarrierBytes + args.gather.plan.shared_bytes(), write_shared_bytes(dims, columns),
                kBarrierBytes + sizeof(device::TileMemory<MixTile, device::Triangle::lower, 1>)});
  const device::LaunchShape shape = shape_of(args.team, bytes);
  std::string text;
  dispatch_form<T>(pass, columns, [&]<typename Form>() {
    if (action == Action::launch) return launch_team(forward_kernel<Form>, shape, context, args);
    if (action == Action::refuse_residency) text = refuse_residency(forward_kernel<Form>, shape, context.device);
  });
  if (action == Action::describe) text = describe(args.team);
  return text;
}

}  // namespace sdm::fused
