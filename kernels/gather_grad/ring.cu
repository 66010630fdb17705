#include "kernels/common/row_stream.cuh"
#include "kernels/gather_grad/row_grad.cuh"

namespace sdm::gather_grad {

// --- kernels ---------------------------------------------------------------------------------------------------------

namespace {

using namespace device_rows;

constexpr int kLanes = 32;         ///< of a row group, and entries that it holds
constexpr int kBatch = 8;          ///< rows that are asked for, waited for and used together
constexpr int kRows = 24;          ///< in flight
constexpr int kEarly = 40;         ///< asked for in L2 before the wait for the previous grid; fewer where rows return,
constexpr int kReturnedEarly = 8;  ///< as CTAs of a grid take turns there (flagship: 1,877 us, with 40 1,898)
constexpr int kResidentCtas = 8;   ///< a multiprocessor
constexpr int kRingBytes = kRows * kLanes * 16;

/// grid: a CTA of one warp per unit. A lane has 24 rows in flight, in shared memory, and reads what it copied itself.
/// Half as many warps as hold 16 rows in registers keep as many bytes in flight: where rows return, half as many slices
/// of streams are read at a time, and L2 holds these. A warp that ends makes room for one of the next grid, which asks
/// for rows while others of this one still work: wide960 took 662 us on an H200 by CTAs of four warps with 8 early
/// rows, 625 with 40, and 614 in this form (its backward 5,576, 5,494 and 5,434).
template <typename T>
__global__ void __launch_bounds__(kLanes, kResidentCtas) gather_grad_ring(const __grid_constant__ Args args) {
  using Row = RowVector<T, true>;
  extern __shared__ uint4 memory[];
  const RowPlan& plan = args.plan;
  const EntrySource& source = args.source;
  const RowPlace at = place_of(plan, static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
  const RowColumns columns = columns_of<T>(args.grad, plan, at);
  DotVisitor<Row> visitor = dots_of<Row>(args, at, columns);
  Entry mine = fetch_entry(source, at, at.lane), next = fetch_entry(source, at, at.lane + kLanes);
  prefetch_entry(source, at, at.lane);
  prefetch_entry(source, at, at.lane + kLanes);
  if (static_cast<std::int32_t>(blockIdx.x) < args.early_ctas) {
    const int early = plan.slice_major ? kReturnedEarly : kEarly;
    if (at.lane < early) prefetch_slice(plan, at, columns, mine.row);
    if (at.lane + kLanes < early) prefetch_slice(plan, at, columns, next.row);
  }
  TakeTurn{}();
  uint4* slot = memory + at.lane;  // of a batch, kLanes apart
  const auto ask = [&](const Entry& holders, int holder) {
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int row = __shfl_sync(kWholeWarp, holders.row, holder + u);
      copy_async_if(row >= 0 && columns.inside, slot + u * kLanes, columns.at(max(row, 0)), policy_of(kGradientStay));
    }
  };
  const auto to_next_slot = [&] {
    slot += kBatch * kLanes;
    if (slot >= memory + kRows * kLanes) slot -= kRows * kLanes;
  };
#pragma unroll 1
  for (int holder = 0; holder < kRows; holder += kBatch, to_next_slot()) {
    ask(mine, holder);
    commit_copies();
  }
  float acc[Row::kElements] = {};
#pragma unroll 1
  for (int i = 0; i < source.entries; i += kBatch, to_next_slot()) {
    const int holder = i & (kLanes - 1), ahead = holder + kRows;
    wait_copies_but<kRows / kBatch - 1>();
    uint4 raw[kBatch];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) raw[u] = slot[u * kLanes];
#pragma unroll
    for (int u = 0; u < kBatch; ++u) fold_row<Row>(plan, mine, raw[u], u, holder + u, i - holder, visitor, acc);
    if (i + kRows < source.entries) ask(ahead < kLanes ? mine : next, ahead & (kLanes - 1));
    commit_copies();
    if (holder + kBatch < kLanes) continue;
    mine = next;
    next = fetch_entry(source, at, i + kBatch + kLanes + at.lane);
  }
  finish_part(plan, at, 0, nullptr, args.d_dv_w, acc);
}

// --- launchers -------------------------------------------------------------------------------------------------------

RowPlan ring_plan(const Params& p) {
  return make_row_plan(p.dims, p.grad.dtype, p.step, p.groups, p.dims.writes, kLanes / 32);
}

/// More shared memory than the ring takes keeps a ninth CTA away: grids then fill the multiprocessors evenly, and the
/// next one's CTAs begin where this one's have ended (wide960 with room for three CTAs of four warps: 820 us).
LaunchShape ring_shape(const RowPlan& plan, const LaunchContext& context) {
  const std::size_t share = context.device.shared_memory_per_multiprocessor / (kResidentCtas + 1);
  const std::size_t bytes = std::min(share, context.device.shared_memory_per_block);
  return {dim3(static_cast<unsigned>(plan.ctas())), plan.threads, std::max<std::size_t>(bytes, kRingBytes)};
}

/// Three quarters of the resident CTAs ask early: the last to begin find the wait over, and would only ask twice
/// (wide960: 614 us, 637 with all of them).
void launch_ring(const Params& p, const LaunchContext& context) {
  const RowPlan plan = ring_plan(p);
  Args args = args_of(p, plan);
  args.early_ctas = early_ctas(context, kResidentCtas) / 4 * 3;
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
  return plan.slice_major || plan.units <= kResidentCtas * device.multiprocessors;
}

std::string describe_ring(const Params& p, const LaunchContext& context) {
  const RowPlan plan = ring_plan(p);
  return device::describe(ring_shape(plan, context)) + ", " + std::to_string(plan.slices) +
         " column slices, a ring of " + std::to_string(kRows) + " rows a warp";
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
