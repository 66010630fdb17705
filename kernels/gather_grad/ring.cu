#include "kernels/common/row_stream.cuh"
#include "kernels/gather_grad/row_grad.cuh"

namespace sdm::gather_grad {

// --- kernels ---------------------------------------------------------------------------------------------------------

namespace {

using namespace device_rows;

constexpr int kLanes = 32;  ///< of a row group, and entries that it holds
constexpr int kBatch = 8;   ///< rows that are asked for, waited for and used together
constexpr int kThreads = 128;
constexpr int kResidentCtas = 2;  ///< a multiprocessor
constexpr int kRingBytes = kLanes * kThreads * 16;

/// grid: CTAs of units, a unit a warp. A lane has 32 rows in flight, in shared memory, and reads what it copied itself.
/// Half as many warps as hold 16 rows in registers keep as many bytes in flight: where rows return, half as many slices
/// of streams are read at a time, and L2 holds these.
template <typename T>
__global__ void __launch_bounds__(kThreads, kResidentCtas) gather_grad_ring(const __grid_constant__ Args args) {
  using Row = RowVector<T, true>;
  extern __shared__ uint4 memory[];
  uint4* const ring = memory + threadIdx.x;
  const RowPlan& plan = args.plan;
  const EntrySource& source = args.source;
  const RowPlace at = place_of(plan, static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
  const RowColumns columns = columns_of<T>(args.grad, plan, at);
  DotVisitor<Row> visitor = dots_of<Row>(args, at, columns);
  Entry mine = fetch_entry(source, at, at.lane), next = fetch_entry(source, at, at.lane + kLanes);
  prefetch_entry(source, at, at.lane);
  prefetch_entry(source, at, at.lane + kLanes);
  if (at.lane < early_rows(args.early_ctas)) prefetch_slice(plan, at, columns, mine.row);
  TakeTurn{}();
  const auto ask = [&](const Entry& holders, int holder) {
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int row = __shfl_sync(kWholeWarp, holders.row, holder + u);
      copy_async_if(row >= 0 && columns.inside, ring + (holder + u) * kThreads, columns.at(max(row, 0)),
                    policy_of(kGradientStay));
    }
  };
#pragma unroll 1
  for (int holder = 0; holder < kLanes; holder += kBatch) {
    ask(mine, holder);
    commit_copies();
  }
  float acc[Row::kElements] = {};
#pragma unroll 1
  for (int i = 0; i < source.entries; i += kBatch) {
    const int holder = i & (kLanes - 1);
    wait_copies_but<kLanes / kBatch - 1>();
    uint4 raw[kBatch];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) raw[u] = ring[(holder + u) * kThreads];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) fold_row<Row>(plan, mine, raw[u], u, holder + u, i - holder, visitor, acc);
    if (i + kLanes < source.entries) ask(next, holder);
    commit_copies();
    if (holder + kBatch < kLanes) continue;
    mine = next;
    next = fetch_entry(source, at, i + kBatch + kLanes + at.lane);
  }
  finish_part(plan, at, 0, nullptr, args.d_dv_w, acc);
}

// --- launchers -------------------------------------------------------------------------------------------------------

RowPlan ring_plan(const Params& p, const LaunchContext& context) {
  const int most = kThreads / 32, warps = context.geometry.warps;
  return make_row_plan(p.dims, p.grad.dtype, p.step, p.groups, p.dims.writes, warps > 0 ? std::min(warps, most) : most);
}

/// More shared memory than the ring takes keeps a third CTA away: grids then fill the multiprocessors evenly, and the
/// next one's CTAs begin where this one's have ended.
LaunchShape ring_shape(const RowPlan& plan, const LaunchContext& context) {
  const std::size_t share = context.device.shared_memory_per_multiprocessor / (kResidentCtas + 1);
  const std::size_t bytes = std::min(share, context.device.shared_memory_per_block);
  return {dim3(static_cast<unsigned>(plan.ctas())), plan.threads, std::max<std::size_t>(bytes, kRingBytes)};
}

void launch_ring(const Params& p, const LaunchContext& context) {
  const RowPlan plan = ring_plan(p, context);
  Args args = args_of(p, plan);
  args.early_ctas = early_ctas(context, kResidentCtas);
  dispatch_real(p.grad.dtype,
                [&]<typename T>() { launch(gather_grad_ring<T>, ring_shape(plan, context), context, args); });
}

std::string refuse_ring(const Params& p, const Device& device) {
  if (p.copies)
    return "gradient rows are copied for undo by rows and rows_r64 alone; set workload.gradient_copy to false";
  const std::string reason = device::refuse_ring(p.dims, p.grad.dtype, p.groups, kRingBytes, device);
  return reason.empty() ? refuse_rows(p, device) : reason;
}

/// Where rows return, and where all of a step's warps are resident with this ring. Between these `stream` has more
/// warps at work in one wave (flag64: 1,282 us with the ring, 1,214 with `rows`, 1,190 with `stream`).
bool suits_ring(const Params& p, const Device& device) {
  const RowPlan plan = make_row_plan(p.dims, p.grad.dtype, 0, p.groups, p.dims.writes, 0);
  return plan.slice_major || plan.units <= kResidentCtas * (kThreads / 32) * device.multiprocessors;
}

std::string describe_ring(const Params& p, const LaunchContext& context) {
  const RowPlan plan = ring_plan(p, context);
  return device::describe(ring_shape(plan, context)) + ", " + std::to_string(plan.slices) +
         " column slices, a ring of " + std::to_string(kLanes) + " rows a warp";
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
