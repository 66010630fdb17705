#pragma once
// gather by rows: the kernel and launcher behind the variants `rows` and `rows_l2`.
#include "kernels/common/row_stash.cuh"
#include "kernels/gather/gather.h"

namespace sdm::gather::device_rows {

using namespace sdm::device;

// --- kernels ---------------------------------------------------------------------------------------------------------

struct Args {
  RowPlan plan;
  const void* bank;
  EntrySource source[2];  ///< writes, reads
  float* out[2];          ///< [P*C, D] each
  Stay stay[2];           ///< of their rows
  std::int32_t operands;  ///< CTAs alternate between them: both read the rows of one stream at the same time
  std::int32_t early_ctas;
  StashTarget stash;
};

/// grid: CTAs of units, times operands. At 8 rows in flight 64 registers keep 1024 threads on an SM, 80 with a stash
/// 768; 16 rows take 128 and leave 512 threads.
template <typename T, bool kWhole, int kDepth, bool kStash>
__global__ void __launch_bounds__(kMaxRowThreads, kDepth > 8 ? 2 : (kStash ? 3 : 4))
    gather_rows(const __grid_constant__ Args args) {
  using Row = RowVector<T, kWhole>;
  extern __shared__ float4 shared[];
  float* parts = reinterpret_cast<float*>(shared);
  const RowPlan& plan = args.plan;
  const unsigned operand = args.operands == 2 ? blockIdx.x & 1u : 0u;
  const unsigned block = args.operands == 2 ? blockIdx.x / 2 : blockIdx.x;
  const EntrySource& source = args.source[operand];
  const std::uint64_t policy = policy_of(args.stay[operand]);
  float* out = args.out[operand];
  const RowPlace at = place_of(plan, static_cast<int>(block), static_cast<int>(threadIdx.x));
  const RowColumns columns = columns_of<T>(args.bank, plan, at);
  StashVisitor<Row, kStash> visitor{
      args.stash, plan, at, columns, args.stash.rows + at.column * static_cast<std::int64_t>(sizeof(T)), operand == 0};
  const std::int32_t early = early_rows(args.early_ctas);
  for (int first = 0; first < plan.groups(); first += plan.parallel()) {
    const int part = first + at.part;
    float acc[Row::kElements] = {};
    fold_part<Row, kDepth>(plan, at, source, part, columns, policy, visitor, acc, TakeTurn{}, first == 0 ? early : 0);
    finish_part(plan, at, part, parts, out, acc);
  }
  total_parts<Row::kElements>(plan, at, parts, out);
}

// --- launchers -------------------------------------------------------------------------------------------------------

inline int operands(const Params& p) { return p.inter ? 2 : 1; }

/// CTAs of 4 warps end and begin more evenly than CTAs of 8 (H200, default 332 us in place of 338, flagship 3,189 in
/// place of 3,217).
inline RowPlan plan_of(const Params& p, const LaunchContext& context) {
  const std::int32_t entries = p.dims.writes + (p.inter ? p.dims.reads : 0);
  const std::int32_t warps = context.geometry.warps > 0 ? context.geometry.warps : 4;
  return make_row_plan(p.dims, p.bank.dtype, p.step, p.groups, entries, warps, kNarrowLanes);
}

inline int depth_of(const Params& p, const RowPlan& plan, const LaunchContext& context) {
  return rows_in_flight(plan, p.inter ? std::min(p.dims.writes, p.dims.reads) : p.dims.writes, context);
}

inline Args args_of(const Params& p, const RowPlan& plan, const Device& device) {
  const Dims& d = p.dims;
  const std::int64_t token = std::int64_t{p.step} * d.streams * d.chunk;
  Args args{};
  args.plan = plan;
  args.bank = p.bank.data;
  args.operands = operands(p);
  const GatherStays stays = gather_stays(d, p.bank.dtype, plan.slice_major, p.write_quantizes, device.l2_bytes);
  args.stay[0] = stays.writes, args.stay[1] = stays.reads;
  args.source[0] = entries_of(p.k_idx, p.k_weight, d.writes, d, p.step, p.step + 1);
  args.out[0] = p.retrieved + token * d.head_dim;
  if (p.inter) {
    args.source[1] = entries_of(p.q_idx, p.q_weight, d.reads, d, p.step, p.step + 1);
    args.out[1] = p.inter + token * d.head_dim;
  }
  if (p.stash.format != SnapshotFormat::none) {
    const bool by_entry = p.stash.format == SnapshotFormat::per_entry;
    args.stash = {static_cast<char*>(p.stash.rows), by_entry ? GroupPlaces{} : p.place, d.writes, d.chunk};
    args.stash = stash_at(args.stash, p.step, d.streams, snapshot_row_bytes(p.stash.format, d.head_dim, p.bank.dtype));
  }
  return args;
}

template <bool kLeave>
void launch_rows(const Params& p, const LaunchContext& context) {
  const RowPlan plan = plan_of(p, context);
  const LaunchShape shape = shape_of(plan, operands(p));
  Args args = args_of(p, plan, context.device);
  if (kLeave) args.stay[0] = args.stay[1] = Stay::leave;
  args.early_ctas = early_ctas(context, kEarlyThreads / plan.threads);
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    dispatch_value<false, true>(p.stash.format != SnapshotFormat::none, [&]<bool kStash>() {
      if (plan.vec == 1) return launch(gather_rows<T, false, 8, kStash>, shape, context, args);
      dispatch_value<8, 16>(depth_of(p, plan, context),
                            [&]<int kDepth>() { launch(gather_rows<T, true, kDepth, kStash>, shape, context, args); });
    });
  });
}

inline std::string refuse_rows(const Params& p, const Device&) {
  if (p.stash.format != SnapshotFormat::none && p.stash.format != SnapshotFormat::per_entry &&
      p.stash.format != SnapshotFormat::raw)
    return "the stash holds rows as they are; per_entry and raw are supported, the other formats come from write";
  return refuse_row_plan(p.dims, p.groups, p.inter ? std::max(p.dims.writes, p.dims.reads) : p.dims.writes);
}

inline std::string describe_rows(const Params& p, const LaunchContext& context) {
  const RowPlan plan = plan_of(p, context);
  return device::describe(plan, operands(p), depth_of(p, plan, context));
}

}  // namespace sdm::gather::device_rows
