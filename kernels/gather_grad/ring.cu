#include "kernels/common/row_stream.cuh"
#include "kernels/gather_grad/row_grad.cuh"

namespace sdm::gather_grad {

// --- kernels ---------------------------------------------------------------------------------------------------------

namespace {

using namespace device_rows;

constexpr int kLanes = 32;  ///< of a row group, and entries that it holds
constexpr int kBatch = 8;   ///< rows that are asked for, waited for and used together

/// Two forms. Packed: two CTAs fill a multiprocessor, and the next grid's begin where they have ended. Beside: one CTA,
/// and the next grid's waits beside it with its entries at hand, having asked for rows that come while this grid ends.
template <bool kBeside>
struct Ring {
  static constexpr int kRows = kBeside ? 24 : 32, kThreads = kBeside ? 256 : 128, kResidentCtas = kBeside ? 1 : 2;
  static constexpr int kEarly = kBeside ? 24 : kEarlyRows;
  static constexpr int kBytes = kRows * kThreads * 16;
};

/// grid: CTAs of units, a unit a warp; beside: units are dealt out to the CTAs in turn. A lane has kRows rows in
/// flight, in shared memory, and reads what it copied itself. Half as many warps as hold 16 rows in registers keep as
/// many bytes in flight: where rows return, half as many slices of streams are read at a time, and L2 holds these.
/// Beside, the next grid is allowed when the last rows have been asked for: what it asks for should come behind them.
template <typename T, bool kBeside>
__global__ void __launch_bounds__(Ring<kBeside>::kThreads, 2) gather_grad_ring(const __grid_constant__ Args args) {
  using Row = RowVector<T, true>;
  constexpr int kRows = Ring<kBeside>::kRows, kThreads = Ring<kBeside>::kThreads;
  extern __shared__ uint4 memory[];
  uint4* const ring = memory + threadIdx.x;
  const RowPlan& plan = args.plan;
  const EntrySource& source = args.source;
  const int block = static_cast<int>(blockIdx.x), warp = static_cast<int>(threadIdx.x) / 32;
  const int unit = kBeside ? warp * static_cast<int>(gridDim.x) + block : block * plan.units_per_cta() + warp;
  if (kBeside && unit >= plan.units) return;
  const RowPlace at = place_of_unit(plan, unit, plan.units, static_cast<int>(threadIdx.x));
  const RowColumns columns = columns_of<T>(args.grad, plan, at);
  Entry mine = fetch_entry(source, at, at.lane), next = fetch_entry(source, at, at.lane + kLanes);
  prefetch_entry(source, at, at.lane);
  prefetch_entry(source, at, at.lane + kLanes);
  DotVisitor<Row> visitor = dots_of<Row>(args, at, columns);
  if (block < args.early_ctas && at.lane < Ring<kBeside>::kEarly) prefetch_slice(plan, at, columns, mine.row);
  wait_for_previous_grid();
  if (!kBeside) allow_next_grid();
  const auto ask = [&](const Entry& holders, int holder, int slot) {
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int row = __shfl_sync(kWholeWarp, holders.row, holder + u);
      copy_async_if(row >= 0 && columns.inside, ring + (slot + u) * kThreads, columns.at(max(row, 0)),
                    policy_of(kGradientStay));
    }
  };
#pragma unroll 1
  for (int slot = 0; slot < kRows; slot += kBatch) {
    ask(mine, slot, slot);
    commit_copies();
  }
  float acc[Row::kElements] = {};
  int slot = 0;
#pragma unroll 1
  for (int i = 0; i < source.entries; i += kBatch) {
    const int holder = i & (kLanes - 1);
    wait_copies_but<kRows / kBatch - 1>();
    uint4 raw[kBatch];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) raw[u] = ring[(slot + u) * kThreads];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) fold_row<Row>(plan, mine, raw[u], u, holder + u, i - holder, visitor, acc);
    if (i + kRows < source.entries) {
      const int coming = holder + kRows;
      if (coming < kLanes)
        ask(mine, coming, slot);
      else
        ask(next, coming - kLanes, slot);
    }
    commit_copies();
    if (kBeside && i + kRows + kBatch >= source.entries) allow_next_grid();
    slot = slot + kBatch == kRows ? 0 : slot + kBatch;
    if (holder + kBatch < kLanes) continue;
    mine = next;
    next = fetch_entry(source, at, i + kBatch + kLanes + at.lane);
  }
  finish_part(plan, at, 0, nullptr, args.d_dv_w, acc);
}

// --- launchers -------------------------------------------------------------------------------------------------------

template <bool kBeside>
RowPlan ring_plan(const Params& p, const LaunchContext& context) {
  const int most = Ring<kBeside>::kThreads / 32, warps = context.geometry.warps;
  return make_row_plan(p.dims, p.grad.dtype, p.step, p.groups, p.dims.writes, warps > 0 ? std::min(warps, most) : most);
}

/// More shared memory than the ring takes keeps a third CTA away: grids then fill the multiprocessors evenly, and the
/// next one's CTAs begin where this one's have ended, or beside.
template <bool kBeside>
LaunchShape ring_shape(const RowPlan& plan, const LaunchContext& context) {
  const std::size_t share = context.device.shared_memory_per_multiprocessor / 3;
  const std::size_t bytes = std::min(share, context.device.shared_memory_per_block);
  const int ctas = kBeside ? std::max(plan.ctas(), std::min(plan.units, context.device.multiprocessors)) : plan.ctas();
  return {dim3(static_cast<unsigned>(ctas)), plan.threads, std::max<std::size_t>(bytes, Ring<kBeside>::kBytes)};
}

/// Whether a step's warps are all resident, eight a multiprocessor, and the next step's find room beside them.
bool one_wave(const Params& p, const Device& device) {
  return make_row_plan(p.dims, p.grad.dtype, 0, p.groups, p.dims.writes, 0).units <= 8 * device.multiprocessors;
}
/// Where grids wait beside each other at all, or by geometry (depth=24).
bool beside(const Params& p, const LaunchContext& context) {
  const std::size_t pair = 2 * (Ring<true>::kBytes + 1024);  // 1 KiB of every CTA is the system's
  const int depth = context.geometry.depth;
  return (depth > 0 ? depth < Ring<false>::kRows : context.dependent_launch) && one_wave(p, context.device) &&
         context.device.shared_memory_per_multiprocessor >= pair &&
         context.device.shared_memory_per_block >= Ring<true>::kBytes;
}

void launch_ring(const Params& p, const LaunchContext& context) {
  dispatch_value<false, true>(beside(p, context), [&]<bool kBeside>() {
    const RowPlan plan = ring_plan<kBeside>(p, context);
    Args args = args_of(p, plan);
    args.early_ctas = early_ctas(context, Ring<kBeside>::kResidentCtas);
    dispatch_real(p.grad.dtype, [&]<typename T>() {
      launch(gather_grad_ring<T, kBeside>, ring_shape<kBeside>(plan, context), context, args);
    });
  });
}

std::string refuse_ring(const Params& p, const Device& device) {
  if (p.copies)
    return "gradient rows are copied for undo by rows and rows_r64 alone; set workload.gradient_copy to false";
  const std::string reason = device::refuse_ring(p.dims, p.grad.dtype, p.groups, Ring<false>::kBytes, device);
  return reason.empty() ? refuse_rows(p, device) : reason;
}

/// Where rows return, and where all of a step's warps are resident with this ring. Between these `stream` has more
/// warps at work in one wave (flag64: 1,282 us with the ring, 1,214 with `rows`, 1,190 with `stream`).
bool suits_ring(const Params& p, const Device& device) {
  return make_row_plan(p.dims, p.grad.dtype, 0, p.groups, p.dims.writes, 0).slice_major || one_wave(p, device);
}

std::string describe_ring(const Params& p, const LaunchContext& context) {
  std::string text;
  dispatch_value<false, true>(beside(p, context), [&]<bool kBeside>() {
    const RowPlan plan = ring_plan<kBeside>(p, context);
    text = device::describe(ring_shape<kBeside>(plan, context)) + ", " + std::to_string(plan.slices) +
           " column slices, a ring of " + std::to_string(Ring<kBeside>::kRows) + " rows a warp";
  });
  return text;
}

}  // namespace

constinit const Variant<Params> ring{
    .name = "ring",
    .why = "a warp per token and column slice, its rows through shared memory: many rows in flight with few warps",
    .guarantee = Guarantee::exact,
    .suits = suits_ring,
    .refuse = refuse_ring,
    .launch = launch_ring,
    .describe = describe_ring,
};

}  // namespace sdm::gather_grad
