#include "kernels/common/async_copy.cuh"
#include "kernels/common/copy_engine.cuh"
#include "kernels/gather_grad/row_grad.cuh"

namespace sdm::gather_grad {

// --- kernels ---------------------------------------------------------------------------------------------------------

namespace {

using namespace device_rows;

constexpr int kLaneBits = 4, kLanes = 1 << kLaneBits;  ///< of a row group, and rows that it has in flight
constexpr int kGroupBits = 3, kEntries = 8;            ///< of a token: parts; of a part: entries, at most
constexpr int kParts = kLanes / kEntries;              ///< of a row group, at distance parallel()
constexpr int kUnitBits = kLaneBits + kGroupBits - 1;
constexpr int kThreads = 128, kResidentCtas = 5;
constexpr std::size_t kRingBytes = kLanes * kThreads * 16;

/// Asks for the lines of a row in L2. Where every lane of a warp has a row to ask for, this is done sooner than by bulk
/// requests, which lanes send one after the other (H200, default, a stand-alone form of this kernel: 201 us, 213 in
/// bulk).
__device__ __forceinline__ void prefetch_lines(const char* row, std::int32_t bytes) {
  const char* line = row - (reinterpret_cast<std::uintptr_t>(row) & 127);
#pragma unroll 1
  for (; line < row + bytes; line += 128) prefetch_l2(line);
}

/// grid: CTAs of units. A lane holds one entry, of one part or the other, and asks early for its row; all rows of a row
/// group are on their way at once, in shared memory, and a lane reads what it copied itself. Half as many warps as with
/// a part each, so that the next grid's find room beside them.
template <typename T>
__global__ void __launch_bounds__(kThreads, kResidentCtas) gather_grad_two_parts(const __grid_constant__ Args args) {
  using Row = RowVector<T, true>;
  extern __shared__ uint4 memory[];
  float* const parts = reinterpret_cast<float*>(memory + kLanes * kThreads);
  RowPlan plan = args.plan;
  plan.lane_bits = kLaneBits, plan.group_bits = kGroupBits, plan.unit_bits = kUnitBits, plan.slices = 1;  // constants
  plan.slice_major = false;
  const EntrySource& source = args.source;
  const RowPlace at = place_of(plan, static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
  const RowColumns columns = columns_of<T>(args.grad, plan, at);
  DotVisitor<Row> visitor = dots_of<Row>(args, at, columns);
  const int own = at.part + at.lane / kEntries * plan.parallel() + ((at.lane % kEntries) << plan.group_bits);
  const Entry mine = fetch_entry(source, at, own);
  prefetch_entry(source, at, own);
  if (static_cast<std::int32_t>(blockIdx.x) < args.early_ctas && mine.row >= 0)
    prefetch_lines(columns.at(mine.row) - 16 * at.lane, columns.row_bytes);
  TakeTurn{}();
  // The maximum is the address; it keeps it in one register. As a sum with a uniform register, ptxas 13.0 encoded
  // copies with a cache policy wrongly (an illegal instruction).
  const std::uint32_t ring = max(shared_address(memory + threadIdx.x), threadIdx.x);
#pragma unroll
  for (int i = 0; i < kLanes; ++i) {
    const int row = __shfl_sync(kWholeWarp, mine.row, i, kLanes);
    copy_async_if(row >= 0 && columns.inside, ring + i * kThreads * 16, columns.at(max(row, 0)),
                  policy_of(kGradientStay));
    if (i % kEntries == kEntries - 1) commit_copies();
  }
#pragma unroll
  for (int half = 0; half < kParts; ++half) {
    const int part = at.part + half * plan.parallel();
    half == 0 ? wait_copies_but<kParts - 1>() : wait_copies_but<0>();
    float acc[Row::kElements] = {};
    uint4 raw[kEntries];
#pragma unroll
    for (int u = 0; u < kEntries; ++u) raw[u] = memory[(half * kEntries + u) * kThreads + threadIdx.x];
#pragma unroll
    for (int u = 0; u < kEntries; ++u) {
      fold_row<Row>(plan, mine, raw[u], u, half * kEntries + u, part - ((half * kEntries) << plan.group_bits), visitor,
                    acc);
    }
    finish_part(plan, at, part, parts, args.d_dv_w, acc);
  }
  total_parts<Row::kElements>(plan, at, parts, args.d_dv_w);
}

// --- launchers -------------------------------------------------------------------------------------------------------

RowPlan two_parts_plan(const Params& p) {
  RowPlan plan = make_row_plan(p.dims, p.grad.dtype, p.step, p.groups, p.dims.writes, kThreads / 32);
  plan.unit_bits = kUnitBits;
  return plan;
}

LaunchShape two_parts_shape(const RowPlan& plan) {
  return {dim3(static_cast<unsigned>(plan.ctas())), plan.threads, kRingBytes + plan.shared_bytes()};
}

void launch_two_parts(const Params& p, const LaunchContext& context) {
  const RowPlan plan = two_parts_plan(p);
  Args args = args_of(p, plan);
  args.early_ctas = early_ctas(context, kResidentCtas);
  dispatch_real(p.grad.dtype,
                [&]<typename T>() { launch(gather_grad_two_parts<T>, two_parts_shape(plan), context, args); });
}

std::string refuse_two_parts(const Params& p, const Device& device) {
  if (p.copies)
    return "gradient rows are copied for undo by rows and rows_r64 alone; set workload.gradient_copy to false";
  const std::string reason = refuse_rows(p, device);
  if (!reason.empty()) return reason;
  const RowCut cut = cut_row(p.dims.head_dim, p.grad.dtype);
  if (cut.vec == 1 || cut.lanes != kLanes || cut.slices != 1 || p.groups != 1 << kGroupBits ||
      p.dims.writes > kEntries * p.groups)
    return "rows of 144 to 256 bytes, a multiple of 16, and eight parts of at most 8 entries would be needed";
  const std::size_t bytes = two_parts_shape(two_parts_plan(p)).shared_bytes;
  if (device.shared_memory_per_block < bytes)
    return std::to_string(bytes) + " bytes of shared memory would be needed; the device has " +
           std::to_string(device.shared_memory_per_block) + " a block";
  return "";
}

/// Where it was measured: rows of whole lines, and a CTA and more a multiprocessor (H200, default: 203 us, 222 by
/// `rows`).
bool suits_two_parts(const Params& p, const Device& device) {
  const std::int64_t row_bytes = p.dims.head_dim * static_cast<std::int64_t>(size_of(p.grad.dtype));
  return row_bytes % 128 == 0 && two_parts_plan(p).ctas() >= device.multiprocessors;
}

std::string describe_two_parts(const Params& p, const LaunchContext&) {
  const RowPlan plan = two_parts_plan(p);
  return device::describe(two_parts_shape(plan)) + ", " + std::to_string(plan.groups()) + " parts, two a row group";
}

}  // namespace

constinit const Variant<Params> two_parts{
    .name = "two_parts",
    .why = "a row group per two short parts, all their rows on their way through shared memory: half as many warps",
    .guarantee = Guarantee::exact,
    .suits = suits_two_parts,
    .refuse = refuse_two_parts,
    .launch = launch_two_parts,
    .describe = describe_two_parts,
};

}  // namespace sdm::gather_grad
