#pragma once
// The walk that the variants share: a CTA owns a range of a chunk's positions and one block of columns; its token rows
// lie in shared memory; each lane group (8, 16 or 32 lanes of 16 bytes) owns the groups that begin in its part of a
// 32-record window, and has the base rows of kDepth positions in flight before the first is used. A lane's columns are
// its own from the load to the store, so nothing is exchanged except the row maxima of quantized snapshots.
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

/// Row maxima need no exchange where a lane group holds whole rows.
struct NoExchange {
  template <int kDepth>
  __device__ __forceinline__ void operator()(std::uint32_t (&)[kDepth]) {}
};

/// One batch: positions [begin, begin + kDepth) of the window, those below span.end. `ready()` is called once the rows
/// are requested, before token rows are read. Called by the whole warp; lane groups differ in `begin` and `span`.
template <typename S, Save kSave, int kDepth, typename Ready, typename Exchange>
__device__ __forceinline__ void write_batch(const LaneView<S>& v, const device::RecordWindow& window, int begin,
                                            int end, std::int64_t groups_before, float (&acc)[S::kElements],
                                            Ready& ready, Exchange& exchange) {
  uint4 base[kDepth];
  int slot[kDepth];
#pragma unroll
  for (int j = 0; j < kDepth; ++j) slot[j] = window.table[(begin + j) & 31].slot;
#pragma unroll
  for (int j = 0; j < kDepth; ++j)
    base[j] =
        load_columns<S>(v.bank + std::int64_t{slot[j]} * v.head_dim, window.ends_at(begin + j, end) ? v.width : 0);
  ready();
  std::uint32_t amax[kDepth] = {};
  if constexpr (kSave == Save::quantized) {
#pragma unroll
    for (int j = 0; j < kDepth; ++j) amax[j] = group_max<S::kLanes>(lane_amax<typename S::T>(base[j]));
    exchange(amax);
  }
  // Selects in place of branches: the reads of all positions' records and token rows overlap.
#pragma unroll
  for (int j = 0; j < kDepth; ++j) {
    const int i = begin + j;
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
    device::widen<typename S::T>(base[j], x);
    if constexpr (kSave != Save::none) {
      const std::int64_t ordinal = groups_before + __popc(window.first & device::bits_below((i & 31) + 1)) - 1;
      save_columns<S, kSave>(v.snapshot, v.head_dim, v.snapshot_row + ordinal, v.column, width, base[j], x, amax[j],
                             v.owns_scale);
    }
#pragma unroll
    for (int e = 0; e < S::kElements; ++e) updated[e] = fma_rn(x[e], record.c, acc[e]);
    store_columns<S>(v.bank + std::int64_t{record.slot} * v.head_dim, width, device::narrow<typename S::T>(updated));
  }
}

/// A warp's piece of work: the groups that begin in one window, or in one of its 2^unit_shift equal parts.
struct Unit {
  uint4 record{0, 0, 0, 0};
  std::int64_t groups_before = 0;
};

template <Save kSave>
__device__ __forceinline__ Unit load_unit(const Record* record, const Window* window, int w, int valid) {
  return {device::load_record(record, w, valid), kSave == Save::none ? 0 : window[w].groups_before};
}

template <typename S, Save kSave, int kDepth, typename Ready, typename Exchange>
__device__ __forceinline__ void write_unit(const LaneView<S>& v, const Record* record, int valid, int unit,
                                           int unit_shift, const Unit& loaded, Ready& ready, Exchange& exchange) {
  const int sub = unit & ((1 << unit_shift) - 1), part = S::kLanes >> unit_shift;
  const int group = static_cast<int>(threadIdx.x & 31) / S::kLanes;
  const int begin = (sub * (32 / S::kLanes) + group) * part;
  int w = unit >> unit_shift;
  std::int64_t groups_before = loaded.groups_before;
  device::RecordWindow window = device::record_window(v.table, loaded.record, w, valid);
  device::Span span = device::owned_span(window.first, window.last, window.count, begin, begin + part);
  float acc[S::kElements] = {};
  while (true) {
    const int longest = static_cast<int>(__reduce_max_sync(~0u, static_cast<unsigned>(span.end - span.begin)));
    for (int b = 0; b < longest; b += kDepth)
      write_batch<S, kSave, kDepth>(v, window, span.begin + b, span.end, groups_before, acc, ready, exchange);
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
template <typename S, Save kSave, int kDepth, typename Exchange>
__device__ __forceinline__ void walk(const Params& p, const Cut& cut, float* tokens, Exchange exchange) {
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
  int unit = static_cast<int>(blockIdx.y) * cut.units_per_cta + warp * cut.tile_units, in_tile = 0;

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
  if (unit < stop) next = load_unit<kSave>(record, window, unit >> cut.unit_shift, valid);
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
    if (++in_tile == cut.tile_units) {
      in_tile = 0;
      unit += (static_cast<int>(blockDim.x) / 32 - 1) * cut.tile_units;
    }
    if (unit < stop) next = load_unit<kSave>(record, window, unit >> cut.unit_shift, valid);
    write_unit<S, kSave, kDepth>(view, record, valid, now, cut.unit_shift, current, ready, exchange);
  }
  ready();  // warps without a group meet the others at the barrier
}

}  // namespace sdm::write
