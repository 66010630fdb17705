#pragma once
// The walk of `ring` by positions: a lane group goes through its part of a 32-record window position by position, with
// a running sum, and on into the next windows until its last group ends. The records lie in the warp's table in shared
// memory, so that loops may stay rolled and rows lie any depth ahead.
#include "kernels/write/walk.cuh"

namespace sdm::write {

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

/// `rows(view, piece, acc, ready)` writes a piece.
template <typename S, typename Rows, typename Ready>
__device__ __forceinline__ void write_unit(const LaneView<S>& v, const ChunkRecords& chunk, const Unit& unit,
                                           Rows& rows, Ready& ready) {
  const int unit_shift = chunk.unit_shift, valid = chunk.valid;
  const int sub = unit.index & ((1 << unit_shift) - 1), part = S::kLanes >> unit_shift;
  const int group = static_cast<int>(threadIdx.x & 31) / S::kLanes;
  const int begin = (sub * (32 / S::kLanes) + group) * part;
  int w = unit.index >> unit_shift;
  int groups_before = unit.groups_before;
  device::RecordWindow window = device::record_window(v.table, unit.record, w, valid);
  device::Span span = device::owned_span(window.first, window.last, window.count, begin, begin + part);
  float acc[S::kElements] = {};
  while (true) {
    Piece piece(window, span, v.width, groups_before);
    if (piece.longest > 0) rows(v, piece, acc, ready);
    if (!__any_sync(~0u, span.open)) return;
    groups_before += __popc(window.first);
    ++w;
    window = device::record_window(v.table, device::load_record(chunk.record, w, valid), w, valid);
    span = span.open ? device::continued_span(window.last, window.count) : device::Span{};
  }
}

}  // namespace sdm::write
