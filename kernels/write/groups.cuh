#pragma once
// The walk by groups: a lane group has kPart adjacent positions at a time, their base rows in registers, and owns the
// groups that begin there. Nearly all groups of a uniform workload have one member; the others' further members
// are read one by one, also from past the kPart positions. Used by direct, direct2, cluster, stream and the fused
// forward. A lane's columns are its own from the load to the store, so nothing is exchanged except the row maxima of
// quantized snapshots.
#include "kernels/write/walk.cuh"

namespace sdm::write {

/// The groups that begin at the lane group's kPart positions of a unit; the window's records are in the warp's table.
template <typename S, int kPart>
struct Groups {
  const Record* record;  ///< shared memory, of the lane group's first position
  int begin;             ///< that position
  int ordinal;           ///< of the last group that begins before it; where rows are saved
  unsigned firsts = 0;   ///< bit j: a group begins at position begin + j
  int slot[kPart];       ///< known ahead: what rows are asked for with

  Groups() = default;
  __device__ __forceinline__ Groups(const LaneView<S>& v, const ChunkRecords& chunk, const Unit& unit) {
    constexpr int kLaneGroups = 32 / S::kLanes;
    const int window = unit.index >> chunk.unit_shift, sub = unit.index & ((1 << chunk.unit_shift) - 1);
    const int at = (sub * kLaneGroups + static_cast<int>(threadIdx.x & 31) / S::kLanes) * kPart;
    const unsigned starts = device::record_window(v.table, unit.record, window, chunk.valid).first;
    const device::PartGroups own = device::part_groups(starts, unit.groups_before, at, kPart);
    record = v.table + at;
    begin = 32 * window + at;
    ordinal = own.before - 1;
    firsts = own.firsts;
#pragma unroll
    for (int j = 0; j < kPart; ++j) slot[j] = record[j].slot;
  }
  __device__ __forceinline__ bool first(int j) const { return ((firsts >> j) & 1u) != 0; }
  /// The record of position begin + j, also past the table's window.
  __device__ __forceinline__ uint4 member(const ChunkRecords& chunk, int j) const {
    if ((begin & 31) + j < 32) return *reinterpret_cast<const uint4*>(record + j);
    return __ldg(reinterpret_cast<const uint4*>(chunk.record + begin + j));
  }
};

/// Writes the group that begins at position j, if any: fold, snapshot unless `saved`, new row. kAlone: as of
/// GroupBatch.
template <typename S, Save kSave, int kPart, bool kAlone = true>
__device__ __forceinline__ void write_group(const LaneView<S>& v, const ChunkRecords& chunk, const Groups<S, kPart>& at,
                                            int j, int ordinal, const uint4& base, bool saved) {
  const Record record = at.record[j];
  const int width = at.first(j) ? v.width : 0;
  float x[S::kElements], sum[S::kElements], decay = record.c;
  load_token<S>(v.token_row, record.payload, x);
#pragma unroll
  for (int e = 0; e < S::kElements; ++e) sum[e] = fma_rn(record.scale, x[e], 0.0f);
  if ((record.payload & (kFirst | kLast)) == kFirst) [[unlikely]] {
#pragma unroll 1
    for (int i = j + 1;; ++i) {
      const uint4 member = at.member(chunk, i);
      load_token<S>(v.token_row, member.x, x);
#pragma unroll
      for (int e = 0; e < S::kElements; ++e) sum[e] = fma_rn(__uint_as_float(member.z), x[e], sum[e]);
      decay = __uint_as_float(member.w);
      if ((member.x & kLast) != 0) break;
    }
  }
  device::widen<typename S::T>(base, x);
  if constexpr (kSave == Save::raw || kSave == Save::bf16)
    if (!saved) save_columns<S, kSave>(row_at(v.saved, ordinal, v.saved_row_bytes), width, base, x, {});
#pragma unroll
  for (int e = 0; e < S::kElements; ++e) sum[e] = fma_rn(x[e], decay, sum[e]);
  typename S::T* row = row_at(v.bank, at.slot[j], v.row_bytes);
  if (kAlone && S::kAligned && leaves_first(v.row_bytes))
    store_columns<S, true>(row, width, device::narrow<typename S::T>(sum));
  else
    store_columns<S>(row, width, device::narrow<typename S::T>(sum));
}

/// Requests the base rows of all groups that begin here.
template <typename S, int kPart>
__device__ __forceinline__ void load_rows(const LaneView<S>& v, const Groups<S, kPart>& at, uint4 (&base)[kPart]) {
#pragma unroll
  for (int j = 0; j < kPart; ++j)
    base[j] = load_columns<S>(row_at(v.bank, at.slot[j], v.row_bytes), at.first(j) ? v.width : 0);
}

/// Stores the scales of the rows of groups: lane l of a lane group that of position l.
template <typename S, int kPart>
__device__ __forceinline__ void save_scales(const LaneView<S>& v, const Groups<S, kPart>& at, float scale) {
  const int lane = static_cast<int>(threadIdx.x) % S::kLanes;
  if (v.scales && lane < kPart && at.first(lane))
    v.scales[at.ordinal + __popc(at.firsts & device::bits_below(lane + 1))] = scale;
}

/// The Batch (walk.cuh) of direct, direct2 and cluster. Rows are asked for a unit ahead, each as soon as its registers
/// are free. While the token rows come, the first unit's rows are saved (H200: default raw 478 us to 414, fp8 437 to
/// 406, f32_128 raw 885 to 825); quantized ones always before they are needed for anything else.
/// kAlone: in a kernel of its own; in the fused one saving raw rows first, asking the L2, and new rows that leave it
/// first do not pay (docs/performance.md).
template <typename S, Save kSave_, int kPart, typename Exchange = NoExchange, bool kAlone = true>
struct GroupBatch {
  using Shape = S;
  using Work = Groups<S, kPart>;
  static constexpr Save kSave = kSave_;
  static constexpr bool kHoldsRows = true;
  static constexpr Ask kAsk = !kAlone               ? Ask::never
                              : S::kColumns != 256  ? Ask::late
                              : kSave == Save::none ? Ask::always
                              : kSave == Save::raw  ? Ask::early
                                                    : Ask::late;
  static constexpr bool kSavesFirst = kAlone && (kSave == Save::raw || kSave == Save::bf16);
  Exchange exchange{};
  uint4 base[kPart] = {};
  bool saved = false;  ///< the rows in `base` are

  __device__ __forceinline__ void request(const LaneView<S>& v, const Work& at, int j) {
    base[j] = load_columns<S>(row_at(v.bank, at.slot[j], v.row_bytes), at.first(j) ? v.width : 0);
  }
  __device__ __forceinline__ void begin(const LaneView<S>& v, const Work& at) {
#pragma unroll
    for (int j = 0; j < kPart; ++j) request(v, at, j);
  }
  __device__ __forceinline__ void save_row(const LaneView<S>& v, const Work& at, int j, int ordinal, const uint4& row,
                                           const RowCoder& coder) const {
    float x[S::kElements];
    device::widen<typename S::T>(row, x);
    save_columns<S, kSave>(row_at(v.saved, ordinal, v.saved_row_bytes), at.first(j) ? v.width : 0, row, x, coder);
  }
  /// Saves the rows in `base`; `mine`: their coders (batch_coder).
  __device__ __forceinline__ void save(const LaneView<S>& v, const Work& at, const RowCoder& mine) {
    if constexpr (is_quantized(kSave))
      if (!mine.quick) [[unlikely]]
        return save_in_turn(v, at, mine);
    int ordinal = at.ordinal;
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      RowCoder coder;
      if constexpr (is_quantized(kSave)) coder = coder_of_lane(mine, j, kPart);
      ordinal += static_cast<int>((at.firsts >> j) & 1u);
      save_row(v, at, j, ordinal, base[j], coder);
    }
  }
  /// The same with code for one row, through whose registers all pass in turn: a kernel that a launch of a few
  /// microseconds runs but once had better be small (H200, default int4: 423 us with a copy for every row, 406 so).
  __device__ __forceinline__ void save_in_turn(const LaneView<S>& v, const Work& at, const RowCoder& mine) {
    int ordinal = at.ordinal;
#pragma unroll 1
    for (int j = 0; j < kPart; ++j) {
      ordinal += static_cast<int>((at.firsts >> j) & 1u);
      save_row(v, at, j, ordinal, base[0], coder_of_lane(mine, j, kPart));
      const uint4 front = base[0];
#pragma unroll
      for (int i = 1; i < kPart; ++i) base[i - 1] = base[i];
      base[kPart - 1] = front;
    }
  }
  /// What can be done with the first work's rows while the token rows come.
  __device__ __forceinline__ void meanwhile(const LaneView<S>& v, const Work& at) {
    if constexpr (kSavesFirst) save(v, at, {}), saved = true;
  }
  template <typename Ready>
  __device__ __forceinline__ void operator()(const LaneView<S>& v, const ChunkRecords& chunk, const Work& at,
                                             const Work& next, Ready& ready) {
    if constexpr (is_quantized(kSave)) {
      const RowCoder mine = batch_coder<S, kSave, kPart>([&](int j) -> const uint4& { return base[j]; }, exchange);
      save_scales(v, at, mine.scale);
      save(v, at, mine);
    }
    ready();
    int ordinal = at.ordinal;
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      ordinal += static_cast<int>((at.firsts >> j) & 1u);
      write_group<S, kSave, kPart, kAlone>(v, chunk, at, j, ordinal, base[j], kSavesFirst && saved);
      request(v, next, j);
    }
    saved = false;
  }
};

/// Shared by direct and direct2, which differ in the shape alone.
template <typename S, Save kSave, int kPart>
__global__ void __launch_bounds__(32 * kMaxWarps, 1)
    groups_kernel(const __grid_constant__ Params p, const __grid_constant__ Cut cut) {
  extern __shared__ float4 shared[];
  walk(p, cut, reinterpret_cast<float*>(shared), GroupBatch<S, kSave, kPart>{});
}

}  // namespace sdm::write
