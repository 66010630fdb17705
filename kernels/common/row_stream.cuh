#pragma once
// The weighted row sums of gather and gather_grad where a token's sum has one part and a warp reads a column slice:
// what a warp reads of all its units is one stream of rows through a ring of shared memory, so that no warp and no
// multiprocessor waits between units. Device code, and the launch shape.
#include "kernels/common/async_copy.cuh"
#include "kernels/common/row_sum.cuh"

namespace sdm::device {

/// Four CTAs of four warps fill a multiprocessor, a lane has 16 rows on their way. H200, of a stand-alone program with
/// the shapes of configs/h200_perf.json: gather at flag64 2,145 us, with 24 rows in two CTAs of eight warps 2,190.
inline constexpr int kStreamRows = 16, kStreamWarps = 4, kStreamCtas = 4;
inline constexpr int kStreamThreads = 32 * kStreamWarps, kStreamBytes = kStreamRows * kStreamThreads * 16;
/// Rows asked for in L2 before the wait for the previous grid; 8 are the same within 0.5 %, 12 and more are slower.
inline constexpr int kStreamEarly = 6;
inline constexpr int kStreamLanes = 32;  ///< of a row group, and entries that it holds

/// Which units a warp of the grid takes: its own, and every `stride` from there on.
struct StreamWalk {
  std::int32_t ctas, stride;
  std::int32_t units;  ///< of all operands, those of the second behind those of the first
  std::int32_t early_ctas;
};

/// 32 entries of a unit, one a lane; none from the walk's end on.
struct EntryBlock {
  int unit, base;
  Entry held;
};

/// Folds the units of this warp, in order. `ring`: the lane's vectors, kStreamThreads apart; it reads what it copied
/// itself. `job`: its unit, `at` and `columns`, which are the same for all units of a warp; source(unit),
/// policy(unit) and place(unit); take(unit), where the next sum begins; row(..) as a visitor of fold_row; end(acc). A
/// unit's entries are folded in blocks of 32, those that are missing as terms of zeros.
template <typename Row, typename Job>
__device__ __forceinline__ void fold_units(const RowPlan& plan, const StreamWalk& walk, uint4* ring, Job& job) {
  constexpr int kBatch = 8;  // rows that are asked for, waited for and used together
  const auto block = [&](int unit, int base) -> EntryBlock {
    if (unit < walk.units && base >= job.source(unit).entries) unit += walk.stride, base = 0;
    if (unit >= walk.units) return {unit, 0, {-1, 0.0f}};
    const RowPlace there = job.place(unit);
    prefetch_entry(job.source(unit), there, base + there.lane);
    return {unit, base, fetch_entry(job.source(unit), there, base + there.lane)};
  };
  EntryBlock mine = block(job.unit, 0), next = block(mine.unit, kStreamLanes);
  if (job.at.lane < kStreamEarly && static_cast<std::int32_t>(blockIdx.x) < walk.early_ctas)
    prefetch_slice(plan, job.at, job.columns, mine.held.row);
  TakeTurn{}();
  const auto ask = [&](const EntryBlock& block, int holder, int slot) {
    const std::uint64_t policy = job.policy(block.unit);
#pragma unroll
    for (int u = 0; u < kBatch; ++u) {
      const int row = __shfl_sync(kWholeWarp, block.held.row, holder + u);
      copy_async_if(row >= 0 && job.columns.inside, ring + (slot + u) * kStreamThreads, job.columns.at(max(row, 0)),
                    policy);
    }
  };
#pragma unroll 1
  for (int slot = 0; slot < kStreamRows; slot += kBatch) {
    ask(mine, slot, slot);
    commit_copies();
  }
  float acc[Row::kElements] = {};
  int slot = 0;
  while (mine.unit < walk.units) {
#pragma unroll 1
    for (int holder = 0; holder < kStreamLanes; holder += kBatch) {
      wait_copies_but<kStreamRows / kBatch - 1>();
      uint4 raw[kBatch];
#pragma unroll
      for (int u = 0; u < kBatch; ++u) raw[u] = ring[(slot + u) * kStreamThreads];
#pragma unroll
      for (int u = 0; u < kBatch; ++u) fold_row<Row>(plan, mine.held, raw[u], u, holder + u, mine.base, job, acc);
      const int coming = holder + kStreamRows - kStreamLanes;
      if (coming < 0)
        ask(mine, holder + kStreamRows, slot);
      else if (next.unit < walk.units)
        ask(next, coming, slot);
      commit_copies();
      slot = slot + kBatch == kStreamRows ? 0 : slot + kBatch;
    }
    if (next.unit != mine.unit) {
      job.end(acc);
#pragma unroll
      for (int c = 0; c < Row::kElements; ++c) acc[c] = 0.0f;
      if (next.unit < walk.units) job.take(next.unit);
    }
    mine = next;
    next = block(mine.unit, mine.base + kStreamLanes);
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

/// The plan of a variant that takes `geometry` warps a CTA, at most kStreamWarps.
inline RowPlan stream_plan(const Dims& dims, DType row, std::int32_t step, std::int32_t groups, std::int32_t entries,
                           int warps) {
  return make_row_plan(dims, row, step, groups, entries, warps > 0 ? std::min(warps, kStreamWarps) : kStreamWarps);
}

/// Units in rounds of equal length, as many as the resident warps need. A warp keeps to its slice. Where rows return a
/// warp takes one unit, in the plan's order.
inline StreamWalk stream_walk(const RowPlan& plan, int operands, const LaunchContext& context) {
  const std::int32_t units = plan.units * operands, warps = plan.threads / 32;
  const std::int32_t resident = kStreamCtas * warps * context.device.multiprocessors;
  const std::int32_t rounds = plan.slice_major ? 1 : ceil_div(units, resident);
  std::int32_t ctas = ceil_div(ceil_div(units, rounds), warps);
  if (rounds > 1) ctas = ceil_div(ctas, plan.slices) * plan.slices;
  return {ctas, ctas * warps, units, early_ctas(context, kStreamCtas)};
}

/// More shared memory than the ring takes keeps a further CTA away: grids then fill the multiprocessors evenly.
inline LaunchShape stream_shape(const RowPlan& plan, const StreamWalk& walk, const LaunchContext& context) {
  const std::size_t share = context.device.shared_memory_per_multiprocessor / (kStreamCtas + 1);
  const std::size_t bytes = std::min(share, context.device.shared_memory_per_block);
  return {dim3(static_cast<unsigned>(walk.ctas)), plan.threads, std::max<std::size_t>(bytes, kStreamBytes)};
}

/// Why rows cannot go through a ring of a warp's own, or empty.
inline std::string refuse_ring(const Dims& dims, DType row, std::int32_t groups, std::size_t ring_bytes,
                               const Device& device) {
  const RowCut cut = cut_row(dims.head_dim, row);
  const std::int64_t row_bytes = snapshot_row_bytes(SnapshotFormat::raw, dims.head_dim, row);
  if (cut.vec == 1 || cut.lanes != kStreamLanes || groups != 1)
    return "a row has " + std::to_string(row_bytes) + " bytes and its sum " + std::to_string(groups) +
           " parts; more than 256 bytes, a multiple of 16, and one part would be needed";
  if (device.shared_memory_per_block < ring_bytes)
    return "the ring takes " + std::to_string(ring_bytes) + " bytes of shared memory; the device has " +
           std::to_string(device.shared_memory_per_block) + " a block";
  return "";
}

inline std::string describe_stream(const RowPlan& plan, int operands, const LaunchContext& context) {
  const StreamWalk walk = stream_walk(plan, operands, context);
  return describe(stream_shape(plan, walk, context)) + ", " + std::to_string(plan.slices) +
         " column slices, a ring of " + std::to_string(kStreamRows) + " rows a warp, " +
         std::to_string(ceil_div(walk.units, walk.stride)) + " slices of tokens a warp";
}

}  // namespace sdm::device
