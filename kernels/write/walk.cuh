#pragma once
// The walk that the variants share: a CTA owns a range of a chunk's positions and one block of columns; its token rows
// lie in shared memory; each lane group (8, 16 or 32 lanes of 16 bytes) owns the groups that begin in its part of a
// 32-record window. A lane's columns are its own from the load to the store, so nothing is exchanged except the row
// maxima of quantized snapshots. How base rows reach the lanes is the Batch's:
//   using Shape; static constexpr Save kSave; static constexpr int kStep;   // positions that one call covers
//   operator()(view, piece, acc, ready)                                     // called by the whole warp
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
  const float* token_row;  ///< shared memory, at the lane's first column of token 0
  Record* table;           ///< shared memory, the warp's [32]
  std::uint8_t* saved;     ///< the lane's first byte in the snapshot row of the chunk's group 0
  float* scales;           ///< of the chunk's group 0; null but in the first column block
  std::uint32_t row_bytes, saved_row_bytes;
  int columns;  ///< of the CTA's block that the row has
  int width;    ///< of those, the lane's
};

/// Positions that a lane group walks: [begin, begin + length) of the window. Bit j stands for position begin + j.
struct Piece {
  int begin;
  int longest;      ///< the greatest length among the warp's lane groups
  unsigned active;  ///< j < length
  unsigned ends;    ///< a group ends there
  unsigned stores;  ///< ends, and the row has columns of the lane
  unsigned firsts;  ///< a group begins there
  unsigned linked;  ///< of any lane group of the warp: part of a group of several
  int ordinal;      ///< of the group before position begin

  __device__ __forceinline__ Piece(const device::RecordWindow& window, const device::Span& span, int width,
                                   int groups_before)
      : begin(span.begin), active(device::bits_below(span.end - span.begin)) {
    longest = static_cast<int>(__reduce_max_sync(~0u, static_cast<unsigned>(span.end - span.begin)));
    ends = (window.last >> begin) & active;
    stores = width > 0 ? ends : 0u;
    firsts = (window.first >> begin) & active;
    linked = __reduce_or_sync(~0u, (active & ~(ends & firsts)) | (span.open ? ~active : 0u));  // acc stays open
    ordinal = groups_before + __popc(window.first & device::bits_below(begin)) - 1;
  }
  /// Goes `count` positions on.
  __device__ __forceinline__ void advance(int count) {
    ordinal += __popc(firsts & device::bits_below(count));
    begin += count, longest -= count;
    active >>= count, ends >>= count, stores >>= count, firsts >>= count, linked >>= count;
  }
};

/// Position j of a piece: folds its token row, and where its group ends saves the base row and stores the new one.
/// Selects in place of branches, so that the shared-memory reads of neighbouring positions overlap; nothing happens
/// from the piece's end on. Groups of one, nearly all of a uniform workload, need no running sum. `ordinal`: of its
/// group.
template <typename S, Save kSave>
__device__ __forceinline__ void write_position(const LaneView<S>& v, const Piece& piece, int j, int ordinal,
                                               const uint4& base, const RowCoder& coder, float (&acc)[S::kElements]) {
  const Record record = v.table[(piece.begin + j) & 31];
  const int width = ((piece.stores >> j) & 1u) != 0 ? v.width : 0;
  float x[S::kElements], updated[S::kElements];
  load_token<S>(v.token_row, record.payload, x);
  if (((piece.linked >> j) & 1u) != 0) [[unlikely]] {
    const bool active = ((piece.active >> j) & 1u) != 0, first = ((piece.firsts >> j) & 1u) != 0;
#pragma unroll
    for (int e = 0; e < S::kElements; ++e) {
      updated[e] = fma_rn(record.scale, x[e], first ? 0.0f : acc[e]);
      acc[e] = active ? updated[e] : acc[e];
    }
  } else {
#pragma unroll
    for (int e = 0; e < S::kElements; ++e) updated[e] = fma_rn(record.scale, x[e], 0.0f);
  }
  device::widen<typename S::T>(base, x);
  if constexpr (kSave != Save::none)
    save_columns<S, kSave>(row_at(v.saved, ordinal, v.saved_row_bytes), width, base, x, coder);
#pragma unroll
  for (int e = 0; e < S::kElements; ++e) updated[e] = fma_rn(x[e], record.c, updated[e]);
  store_columns<S>(row_at(v.bank, record.slot, v.row_bytes), width, device::narrow<typename S::T>(updated));
}

/// Stores the scales of the first kRows rows of a piece: lane l of a lane group that of row l.
template <typename S, int kRows>
__device__ __forceinline__ void save_scales(const LaneView<S>& v, const Piece& piece, float scale) {
  const int lane = static_cast<int>(threadIdx.x) % S::kLanes;
  if (v.scales && lane < kRows && ((piece.ends >> lane) & 1u) != 0)
    v.scales[piece.ordinal + __popc(piece.firsts & device::bits_below(lane + 1))] = scale;
}

/// Row maxima need no exchange where a lane group holds whole rows.
struct NoExchange {
  __device__ __forceinline__ std::uint32_t operator()(std::uint32_t amax) { return amax; }
};

/// Requests the base rows of kDepth positions at once, into registers.
template <typename S, int kDepth>
__device__ __forceinline__ void load_batch(const LaneView<S>& v, const Piece& piece, uint4 (&base)[kDepth]) {
  int slot[kDepth];
#pragma unroll
  for (int j = 0; j < kDepth; ++j) slot[j] = v.table[(piece.begin + j) & 31].slot;
#pragma unroll
  for (int j = 0; j < kDepth; ++j)
    base[j] = load_columns<S>(row_at(v.bank, slot[j], v.row_bytes), ((piece.stores >> j) & 1u) != 0 ? v.width : 0);
}

/// The Batch of direct, direct2 and cluster: base rows go to registers.
template <typename S, Save kSave_, int kDepth, typename Exchange = NoExchange>
struct RegisterBatch {
  using Shape = S;
  static constexpr Save kSave = kSave_;
  static constexpr int kStep = kDepth;
  Exchange exchange{};

  template <typename Ready>
  __device__ __forceinline__ void operator()(const LaneView<S>& v, const Piece& piece, float (&acc)[S::kElements],
                                             Ready& ready) {
    uint4 base[kDepth];
    load_batch<S, kDepth>(v, piece, base);
    ready();
    RowCoder mine;
    if constexpr (is_quantized(kSave)) {
      mine = batch_coder<S, kSave, kDepth>([&](int j) -> const uint4& { return base[j]; }, exchange);
      save_scales<S, kDepth>(v, piece, mine.scale);
    }
    int ordinal = piece.ordinal;
#pragma unroll
    for (int j = 0; j < kDepth; ++j) {
      RowCoder coder;
      if constexpr (is_quantized(kSave)) coder = coder_of_lane(mine, j, kDepth);
      ordinal += static_cast<int>((piece.firsts >> j) & 1u);
      write_position<S, kSave>(v, piece, j, ordinal, base[j], coder, acc);
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

/// Asks the L2 for the first base rows of a unit's lane groups: harmless while the previous grid still writes them,
/// since the L2 is where its writes go. H200, f32_128 not saving: 732 us with 4 KiB a lane group, 787 with all rows,
/// 773 without; default saving fp8 636 against 659 without, wide960 raw 1994 against 2068. (Bulk prefetches were slower
/// than none at flag64: 3358 against 2684.)
template <typename S>
__device__ __forceinline__ void prefetch_rows(const LaneView<S>& v, int unit, int unit_shift, const uint4& record) {
  constexpr int kGranule = 64;  // what the L2 fetches at least
  constexpr int kRows = 4096 / (S::kColumns * static_cast<int>(sizeof(typename S::T)));
  const int lane = static_cast<int>(threadIdx.x & 31), sub = unit & ((1 << unit_shift) - 1);
  if (!S::kAligned || (record.x & kFirst) == 0 || lane >> (5 - unit_shift) != sub) return;
  if ((lane & ((S::kLanes >> unit_shift) - 1)) >= kRows) return;
  const auto* row = reinterpret_cast<const char*>(
      row_at(v.bank - lane % S::kLanes * S::kElements, static_cast<std::int32_t>(record.y), v.row_bytes));
#pragma unroll
  for (int i = 0; i < S::kColumns * static_cast<int>(sizeof(typename S::T)); i += kGranule)
    if (i < v.columns * static_cast<int>(sizeof(typename S::T)))
      asm volatile("prefetch.global.L2 [%0];" ::"l"(row + i) : "memory");
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
    Piece piece(window, span, v.width, groups_before);
    while (piece.longest > 0) {
      batch(v, piece, acc, ready);
      if constexpr (Batch::kStep == 32) break;
      piece.advance(Batch::kStep % 32);
    }
    if (!__any_sync(~0u, span.open)) return;
    groups_before += __popc(window.first);
    ++w;
    window = device::record_window(v.table, device::load_record(record, w, valid), w, valid);
    span = span.open ? device::continued_span(window.last, window.count) : device::Span{};
  }
}

/// The calling lane's view of one column block of one chunk. `tokens`: shared memory as of walk().
template <typename S, Save kSave>
__device__ __forceinline__ LaneView<S> lane_view(const Params& p, std::int64_t chunk, int block_column, float* tokens) {
  const Dims& d = p.dims;
  const int lane = static_cast<int>(threadIdx.x) % S::kLanes, warp = static_cast<int>(threadIdx.x) / 32;
  const int n = d.write_positions(), column = block_column + lane * S::kElements;
  const int row_bytes = saved_bytes<S, kSave>(d.head_dim);
  return {static_cast<typename S::T*>(p.bank.data) + column,
          tokens + S::kElements * lane,
          reinterpret_cast<Record*>(tokens + token_floats<S>(d.chunk)) + 32 * warp,
          static_cast<std::uint8_t*>(p.snapshot.rows) + chunk * n * row_bytes + saved_bytes<S, kSave>(column),
          is_quantized(kSave) && block_column == 0 ? p.snapshot.scale + chunk * n : nullptr,
          static_cast<std::uint32_t>(d.head_dim) * static_cast<std::uint32_t>(sizeof(typename S::T)),
          static_cast<std::uint32_t>(row_bytes),
          min(S::kColumns, d.head_dim - block_column),
          min(max(d.head_dim - column, 0), S::kElements)};
}

/// The kernel's body. grid.x = streams x column blocks (blocks fastest), grid.y = ranges of a chunk's units.
/// kPrefetch: the first rows are asked of the L2 before the wait for the previous grid.
/// `tokens`: shared memory for token_floats and a record table [32] for every warp. Records and windows are
/// read before the wait for the previous grid: they were written long before (spec 3.2).
template <typename Batch, bool kPrefetch = false>
__device__ __forceinline__ void walk(const Params& p, const Cut& cut, float* tokens, Batch batch) {
  using S = typename Batch::Shape;
  const Dims& d = p.dims;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int block_column = 0, stream = static_cast<int>(blockIdx.x);
  if (d.head_dim > S::kColumns) {
    const int blocks = (d.head_dim + S::kColumns - 1) / S::kColumns;
    block_column = stream % blocks * S::kColumns, stream /= blocks;
  }
  const std::int64_t chunk = std::int64_t{p.step} * d.streams + stream;
  const int n = d.write_positions(), valid_tokens = d.valid_tokens(p.step), valid = valid_tokens * d.writes;
  const Record* record = p.record + chunk * n;
  const Window* window = p.window + chunk * window_count(n);
  const int units = ((valid + 31) / 32) << cut.unit_shift, begin = static_cast<int>(blockIdx.y) * cut.units_per_cta;
  const int stop = min(units, begin + cut.units_per_cta);
  int unit = begin + warp * cut.tile_units, left = cut.tile_units;  // of the warp's tile

  const LaneView<S> view = lane_view<S, Batch::kSave>(p, chunk, block_column, tokens);
  device::RowStage stage(token_barrier<S>(tokens, d.chunk), cut.engine);
  Unit next;
  if (unit < stop) {
    next = load_unit<Batch::kSave>(record, window, unit >> cut.unit_shift, valid);
    if constexpr (kPrefetch) prefetch_rows(view, unit, cut.unit_shift, next.record);
  }
  __syncthreads();  // the stage's barrier
  device::wait_for_previous_grid();
  device::allow_next_grid();
  stage.start<S::kAligned>(
      token_block<S>(tokens, p.delta_v + chunk * d.chunk * d.head_dim, valid_tokens, d.head_dim, block_column));
  bool staged = false;
  auto ready = [&] {  // token rows arrive while the first base rows are on their way
    if (!staged) stage.wait<S::kAligned>();
    staged = true;
  };
  while (unit < stop) {
    const Unit current = next;
    const int now = unit;
    ++unit;
    if (--left == 0) unit += (static_cast<int>(blockDim.x) / 32 - 1) * cut.tile_units, left = cut.tile_units;
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
