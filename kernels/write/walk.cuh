#pragma once
// The walk that the variants share: a CTA owns a range of a chunk's positions and one block of columns; its token rows
// lie in shared memory; each lane group (8, 16 or 32 lanes of 16 bytes) owns the groups that begin in its part of a
// 32-record window. A lane's columns are its own from the load to the store, so nothing is exchanged except the row
// maxima of quantized snapshots. How base rows reach the lanes is the Batch's:
//   using Shape; static constexpr Save kSave; static constexpr int kStep;   // positions that one call covers
//   operator()(view, window, begin, end, groups_before, acc, ready)         // called by the whole warp
#include "kernels/common/group_walk.cuh"
#include "kernels/common/launch.h"
#include "kernels/write/encode.cuh"
#include "kernels/write/shape.h"
#include "kernels/write/write.h"

namespace sdm::write {

/// Where a lane stands: fixed for the whole kernel.
template <typename S>
struct LaneView {
  typename S::T* bank;     ///< at the lane's column of row 0
  const float* token_row;  ///< shared memory, at the lane's first float4 of token 0
  Record* table;           ///< shared memory, the warp's [32]
  Snapshot snapshot;
  std::int64_t snapshot_row;  ///< of the chunk's group 0
  int head_dim, column, width;
  bool owns_scale;
};

/// Snapshot row of the group that position i of the window belongs to.
template <typename S>
__device__ __forceinline__ std::int64_t snapshot_row_at(const LaneView<S>& v, const device::RecordWindow& window, int i,
                                                        int groups_before) {
  return v.snapshot_row + groups_before + __popc(window.first & device::bits_below((i & 31) + 1)) - 1;
}

/// Position i: folds its token row, and where its group ends saves the base row and stores the new one. Selects in
/// place of branches, so that the shared-memory reads of neighbouring positions overlap; nothing happens from `end` on.
template <typename S, Save kSave>
__device__ __forceinline__ void write_position(const LaneView<S>& v, const device::RecordWindow& window, int i, int end,
                                               int groups_before, const uint4& base, RowScale scale,
                                               float (&acc)[S::kElements]) {
  const bool active = i < end, first = window.is_first(i);
  const int width = window.ends_at(i, end) ? v.width : 0;
  const Record record = window.table[i & 31];
  float x[S::kElements], updated[S::kElements];
  load_token<S>(v.token_row + token_of(record.payload) * S::kColumns, x);
#pragma unroll
  for (int e = 0; e < S::kElements; ++e) {
    const float sum = fma_rn(record.scale, x[e], first ? 0.0f : acc[e]);
    acc[e] = active ? sum : acc[e];
  }
  device::widen<typename S::T>(base, x);
  if constexpr (kSave != Save::none)
    save_columns<S, kSave>(v.snapshot, v.head_dim, snapshot_row_at(v, window, i, groups_before), v.column, width, base,
                           x, scale, v.owns_scale);
#pragma unroll
  for (int e = 0; e < S::kElements; ++e) updated[e] = fma_rn(x[e], record.c, acc[e]);
  store_columns<S>(v.bank + std::int64_t{record.slot} * v.head_dim, width, device::narrow<typename S::T>(updated));
}

/// Row maxima need no exchange where a lane group holds whole rows.
struct NoExchange {
  __device__ __forceinline__ std::uint32_t operator()(std::uint32_t amax) { return amax; }
};

/// Requests the base rows of kDepth positions at once, into registers.
template <typename S, int kDepth>
__device__ __forceinline__ void load_batch(const LaneView<S>& v, const device::RecordWindow& window, int begin, int end,
                                           uint4 (&base)[kDepth]) {
  int slot[kDepth];
#pragma unroll
  for (int j = 0; j < kDepth; ++j) slot[j] = window.table[(begin + j) & 31].slot;
#pragma unroll
  for (int j = 0; j < kDepth; ++j)
    base[j] =
        load_columns<S>(v.bank + std::int64_t{slot[j]} * v.head_dim, window.ends_at(begin + j, end) ? v.width : 0);
}

/// The Batch of direct, direct2 and cluster: base rows go to registers.
template <typename S, Save kSave_, int kDepth, typename Exchange = NoExchange>
struct RegisterBatch {
  using Shape = S;
  static constexpr Save kSave = kSave_;
  static constexpr int kStep = kDepth;
  Exchange exchange{};

  template <typename Ready>
  __device__ __forceinline__ void operator()(const LaneView<S>& v, const device::RecordWindow& window, int begin,
                                             int end, int groups_before, float (&acc)[S::kElements], Ready& ready) {
    uint4 base[kDepth];
    load_batch<S, kDepth>(v, window, begin, end, base);
    ready();
    RowScale mine{};  // lane l: of row l % 8 of its lane group; a division a lane, not one a row and lane
    if constexpr (kSave == Save::quantized) {
      static_assert(kDepth <= kRowsOfMaxima);
      std::uint32_t amax[kRowsOfMaxima] = {};
#pragma unroll
      for (int j = 0; j < kDepth; ++j) amax[j] = lane_amax<typename S::T>(base[j]);
      mine = make_row_scale(__uint_as_float(exchange(group_maxima<S::kLanes>(amax))), limit_of(v.snapshot.format));
    }
#pragma unroll
    for (int j = 0; j < kDepth; ++j) {
      RowScale scale{};
      if constexpr (kSave == Save::quantized)
        scale = {__shfl_sync(~0u, mine.scale, j, kRowsOfMaxima), __shfl_sync(~0u, mine.reciprocal, j, kRowsOfMaxima)};
      write_position<S, kSave>(v, window, begin + j, end, groups_before, base[j], scale, acc);
    }
  }
};

/// A warp's piece of work: the groups that begin in one window, or in one of its 2^unit_shift equal parts.
struct Unit {
  uint4 record{0, 0, 0, 0};
  int groups_before = 0;
};

template <Save kSave>
__device__ __forceinline__ Unit load_unit(const Record* record, const Window* window, int w, int valid) {
  return {device::load_record(record, w, valid), kSave == Save::none ? 0 : window[w].groups_before};
}

template <typename Batch, typename Ready>
__device__ __forceinline__ void write_unit(const LaneView<typename Batch::Shape>& v, const Record* record, int valid,
                                           int unit, int unit_shift, const Unit& loaded, Batch& batch, Ready& ready) {
  using S = typename Batch::Shape;
  const int sub = unit & ((1 << unit_shift) - 1), part = S::kLanes >> unit_shift;
  const int group = static_cast<int>(threadIdx.x & 31) / S::kLanes;
  const int begin = (sub * (32 / S::kLanes) + group) * part;
  int w = unit >> unit_shift;
  int groups_before = loaded.groups_before;
  device::RecordWindow window = device::record_window(v.table, loaded.record, w, valid);
  device::Span span = device::owned_span(window.first, window.last, window.count, begin, begin + part);
  float acc[S::kElements] = {};
  while (true) {
    const int longest = static_cast<int>(__reduce_max_sync(~0u, static_cast<unsigned>(span.end - span.begin)));
    for (int b = 0; b < longest; b += Batch::kStep)
      batch(v, window, span.begin + b, span.end, groups_before, acc, ready);
    if (!__any_sync(~0u, span.open)) return;
    groups_before += __popc(window.first);
    ++w;
    window = device::record_window(v.table, device::load_record(record, w, valid), w, valid);
    span = span.open ? device::continued_span(window.last, window.count) : device::Span{};
  }
}

/// The kernel's body. grid.x = streams x column blocks (blocks fastest), grid.y = ranges of a chunk's units.
/// `tokens`: shared memory for [C, S::kColumns] floats and a record table [32] for every warp. Records and windows are
/// read before the wait for the previous grid: they were written long before (spec 3.2).
template <typename Batch>
__device__ __forceinline__ void walk(const Params& p, const Cut& cut, float* tokens, Batch batch) {
  using S = typename Batch::Shape;
  const Dims& d = p.dims;
  const int lane = static_cast<int>(threadIdx.x) % S::kLanes, warp = static_cast<int>(threadIdx.x) / 32;
  const int blocks = (d.head_dim + S::kColumns - 1) / S::kColumns;
  const int block_column = static_cast<int>(blockIdx.x) % blocks * S::kColumns;
  const std::int64_t chunk = std::int64_t{p.step} * d.streams + static_cast<int>(blockIdx.x) / blocks;
  const int n = d.write_positions(), valid_tokens = d.valid_tokens(p.step), valid = valid_tokens * d.writes;
  const Record* record = p.record + chunk * n;
  const Window* window = p.window + chunk * window_count(n);
  const int units = ((valid + 31) / 32) << cut.unit_shift;
  const int stop = min(units, static_cast<int>(blockIdx.y + 1) * cut.units_per_cta);
  int unit = static_cast<int>(blockIdx.y) * cut.units_per_cta + warp * cut.tile_units;

  const int column = block_column + lane * S::kElements;
  const int width = min(max(d.head_dim - column, 0), S::kElements);
  Record* table = reinterpret_cast<Record*>(tokens + d.chunk * S::kColumns) + 32 * warp;
  const LaneView<S> view{static_cast<typename S::T*>(p.bank.data) + column,
                         tokens + 4 * lane,
                         table,
                         p.snapshot,
                         chunk * n,
                         d.head_dim,
                         column,
                         width,
                         lane == 0 && block_column == 0};
  Unit next;
  if (unit < stop) next = load_unit<Batch::kSave>(record, window, unit >> cut.unit_shift, valid);
  device::wait_for_previous_grid();
  device::allow_next_grid();
  stage_tokens<S>(tokens, p.delta_v + chunk * d.chunk * d.head_dim, valid_tokens, d.head_dim, block_column);
  bool staged = false;
  auto ready = [&staged] {  // token rows arrive while the first base rows are on their way
    if (!staged) wait_for_tokens();
    staged = true;
  };
  while (unit < stop) {
    const Unit current = next;
    const int now = unit;
    ++unit;
    if ((unit - static_cast<int>(blockIdx.y) * cut.units_per_cta) % cut.tile_units == 0)
      unit += (static_cast<int>(blockDim.x) / 32 - 1) * cut.tile_units;
    if (unit < stop) next = load_unit<Batch::kSave>(record, window, unit >> cut.unit_shift, valid);
    write_unit(view, record, valid, now, cut.unit_shift, current, batch, ready);
  }
  ready();  // warps without a group meet the others at the barrier
}

/// Shared by direct and direct2, which differ in the shape alone.
template <typename S, Save kSave, int kDepth>
__global__ void __launch_bounds__(32 * kMaxWarps, 1)
    walk_kernel(const __grid_constant__ Params p, const __grid_constant__ Cut cut) {
  extern __shared__ float4 shared[];
  walk(p, cut, reinterpret_cast<float*>(shared), RegisterBatch<S, kSave, kDepth>{});
}

}  // namespace sdm::write
