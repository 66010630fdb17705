#pragma once
// gather by rows: the kernel and launcher behind the variants `rows` and `rows_l2`.
#include "kernels/common/row_sum.cuh"
#include "kernels/gather/gather.h"

namespace sdm::gather::device_rows {

using namespace sdm::device;

// --- kernels ---------------------------------------------------------------------------------------------------------

/// Where the write rows of the step are copied to; pointers are moved to the step's first row.
struct StashTarget {
  char* rows = nullptr;  ///< [P*n, D]; null: no stash
  const std::int32_t* position = nullptr;
  const std::uint32_t* payload = nullptr;
  const Window* window = nullptr;
  bool dense = false;
  std::int32_t writes = 0, chunk = 0;
};

struct Args {
  RowPlan plan;
  const void* bank;
  EntrySource source[2];  ///< writes, reads
  float* out[2];          ///< [P*C, D] each
  std::int32_t operands;  ///< CTAs alternate between them: both read the rows of one stream at the same time
  std::int32_t early_ctas;
  StashTarget stash;
};

/// The dense snapshot row, relative to the step, of this lane's write entry `at` (-1: none); -1 unless it is the FIRST
/// of its group. The 32 payloads of an entry's window are read by the whole warp, one entry after the other.
__device__ __forceinline__ int dense_row(const StashTarget& stash, int at) {
  const int lane = static_cast<int>(threadIdx.x & 31u);
  const int n = stash.chunk * stash.writes;
  const int chunk = at < 0 ? 0 : at / n;
  const int position = at < 0 ? -1 : stash.position[at];
  const int before =
      at < 0 ? 0 : stash.window[static_cast<std::int64_t>(chunk) * window_count(n) + position / 32].groups_before;
  int row = -1;
#pragma unroll 4
  for (int holder = 0; holder < 32; ++holder) {
    const int its_position = __shfl_sync(kWholeWarp, position, holder);
    const int its_chunk = __shfl_sync(kWholeWarp, chunk, holder);
    const int bit = its_position & 31;
    const bool needed = its_position >= 0 && lane <= bit;
    const std::uint32_t payload = needed ? stash.payload[its_chunk * n + its_position - bit + lane] : 0u;
    const unsigned firsts = __ballot_sync(kWholeWarp, (payload & kFirst) != 0u);
    if (lane == holder && ((firsts >> bit) & 1u) != 0u) row = chunk * n + before + __popc(firsts & ((1u << bit) - 1u));
  }
  return row;
}

/// Copies the rows that pass by to the stash; every part's owner writes the rows that it reads.
template <typename Row, bool kStash>
struct StashVisitor {
  const StashTarget& stash;
  const RowPlan& plan;
  const RowPlace& place;
  const RowColumns& columns;
  char* base;     ///< the stash, moved to the lane's first column
  bool active;    ///< this CTA works on the writes; the same for the whole CTA, so that shuffles stay convergent
  int mine = -1;  ///< step-relative stash row of the entry that this lane holds

  __device__ void hold(int entry) {
    if constexpr (kStash) {
      if (!active) return;
      const int at = place.valid && entry < stash.writes ? place.token * stash.writes + entry : -1;
      mine = stash.dense ? dense_row(stash, at) : at;
    }
  }
  __device__ void row(int, int holder, const typename Row::Raw& raw, const float (&)[Row::kElements], int) {
    if constexpr (kStash) {
      if (!active) return;
      const int row = __shfl_sync(kWholeWarp, mine, holder, plan.lanes());
      if (row >= 0 && columns.inside) store_once(base + wide_product(row, columns.row_bytes), raw);
    }
  }

 private:
  /// Nobody reads the stash before the backward: it should leave L2 to the bank.
  __device__ static void store_once(char* p, const uint4& raw) { __stcs(reinterpret_cast<uint4*>(p), raw); }
  template <typename T>
  __device__ static void store_once(char* p, const T& raw) {
    *reinterpret_cast<T*>(p) = raw;
  }
};

/// grid: CTAs of units, times operands. At 8 rows in flight 64 registers keep 1024 threads on an SM, 80 with a stash
/// 768; 16 rows take 128 and leave 512 threads.
template <typename T, bool kWhole, int kDepth, bool kHint, bool kStash>
__global__ void __launch_bounds__(kMaxRowThreads, kDepth > 8 ? 2 : (kStash ? 3 : 4))
    gather_rows(const __grid_constant__ Args args) {
  using Row = RowVector<T, kWhole>;
  extern __shared__ float4 shared[];
  float* parts = reinterpret_cast<float*>(shared);
  const RowPlan& plan = args.plan;
  const unsigned operand = args.operands == 2 ? blockIdx.x & 1u : 0u;
  const unsigned block = args.operands == 2 ? blockIdx.x / 2 : blockIdx.x;
  const EntrySource& source = args.source[operand];
  float* out = args.out[operand];
  const RowPlace at = place_of(plan, static_cast<int>(block), static_cast<int>(threadIdx.x));
  const RowColumns columns = columns_of<T>(args.bank, plan, at);
  StashVisitor<Row, kStash> visitor{
      args.stash, plan, at, columns, args.stash.rows + at.column * static_cast<std::int64_t>(sizeof(T)), operand == 0};
  const std::int32_t early = early_rows(args.early_ctas);
  for (int first = 0; first < plan.groups(); first += plan.parallel()) {
    const int part = first + at.part;
    float acc[Row::kElements] = {};
    fold_part<Row, kDepth, kHint>(plan, at, source, part, columns, visitor, acc, TakeTurn{}, first == 0 ? early : 0);
    finish_part(plan, at, part, parts, out, acc);
  }
  total_parts<Row::kElements>(plan, at, parts, out);
}

// --- launchers -------------------------------------------------------------------------------------------------------

inline int operands(const Params& p) { return p.inter ? 2 : 1; }

/// CTAs of 4 warps: they end and begin more evenly than CTAs of 8 (H200, small120 316 us in place of 320, f32_128 558
/// in place of 564).
inline RowPlan plan_of(const Params& p, const LaunchContext& context) {
  const std::int32_t entries = p.dims.writes + (p.inter ? p.dims.reads : 0);
  const std::int32_t warps = context.geometry.warps > 0 ? context.geometry.warps : 4;
  return make_row_plan(p.dims, p.bank.dtype, p.step, p.groups, entries, warps, kNarrowLanes);
}

inline int depth_of(const Params& p, const RowPlan& plan, const LaunchContext& context) {
  return rows_in_flight(plan, p.inter ? std::min(p.dims.writes, p.dims.reads) : p.dims.writes, context);
}

inline Args args_of(const Params& p, const RowPlan& plan) {
  const Dims& d = p.dims;
  const std::int64_t token = std::int64_t{p.step} * d.streams * d.chunk, entry = token * d.writes;
  Args args{};
  args.plan = plan;
  args.bank = p.bank.data;
  args.operands = operands(p);
  args.source[0] = entries_of(p.k_idx, p.k_weight, d.writes, d, p.step, p.step + 1);
  args.out[0] = p.retrieved + token * d.head_dim;
  if (p.inter) {
    args.source[1] = entries_of(p.q_idx, p.q_weight, d.reads, d, p.step, p.step + 1);
    args.out[1] = p.inter + token * d.head_dim;
  }
  if (p.stash.format != SnapshotFormat::none) {
    const std::int64_t row_bytes = snapshot_row_bytes(p.stash.format, d.head_dim, p.bank.dtype);
    args.stash.rows = static_cast<char*>(p.stash.rows) + entry * row_bytes;
    args.stash.dense = p.stash.format != SnapshotFormat::per_entry;
    args.stash.writes = d.writes, args.stash.chunk = d.chunk;
    if (args.stash.dense) {
      args.stash.position = p.position + entry;
      args.stash.payload = p.payload + entry;
      args.stash.window = p.window + std::int64_t{p.step} * d.streams * window_count(d.write_positions());
    }
  }
  return args;
}

template <bool kHint>
void launch_rows(const Params& p, const LaunchContext& context) {
  const RowPlan plan = plan_of(p, context);
  const LaunchShape shape = shape_of(plan, operands(p));
  Args args = args_of(p, plan);
  args.early_ctas = early_ctas(context, kEarlyThreads / plan.threads);
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    dispatch_value<false, true>(p.stash.format != SnapshotFormat::none, [&]<bool kStash>() {
      if constexpr (!kHint)  // refused with the hint
        if (plan.vec == 1) return launch(gather_rows<T, false, 8, false, kStash>, shape, context, args);
      dispatch_value<8, 16>(depth_of(p, plan, context), [&]<int kDepth>() {
        launch(gather_rows<T, true, kDepth, kHint, kStash>, shape, context, args);
      });
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
