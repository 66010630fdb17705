#pragma once
// The walk by groups: a lane group has kPart adjacent positions at a time, their records and base rows in registers, and
// owns the groups that begin there. Nearly all groups of a uniform workload have one member; the others' further members
// are read one by one, also from past the kPart positions. Used by direct, direct2, cluster, stream and the fused
// forward. A lane's columns are its own from the load to the store, so nothing is exchanged except the row maxima of
// quantized snapshots.
#include "kernels/write/walk.cuh"

namespace sdm::write {

/// What a lane group is about to write.
template <int kPart>
struct Positions {
  uint4 record[kPart];  ///< Record's words; zeros (no FIRST) past the valid positions
  int begin;            ///< position of record[0]
  int ordinal;          ///< of the last group that begins before it; where rows are saved

  __device__ __forceinline__ bool first(int j) const { return (record[j].x & kFirst) != 0; }
  __device__ __forceinline__ int slot(int j) const { return static_cast<int>(record[j].y); }
  /// Bit j: a group begins at record j.
  __device__ __forceinline__ unsigned firsts() const {
    unsigned bits = 0;
#pragma unroll
    for (int j = 0; j < kPart; ++j) bits |= record[j].x >> 31 << j;
    return bits;
  }
};

template <typename S, Save kSave, int kPart>
__device__ __forceinline__ Positions<kPart> load_positions(const ChunkRecords& chunk, int unit) {
  constexpr int kUnit = 32 / S::kLanes * kPart;
  const int lane = static_cast<int>(threadIdx.x & 31);
  Positions<kPart> at;
  at.begin = unit * kUnit + lane / S::kLanes * kPart;
#pragma unroll
  for (int j = 0; j < kPart; ++j)
    at.record[j] =
        at.begin + j < chunk.valid ? device::load_stream(chunk.record + at.begin + j) : uint4{0, 0, 0, 0};
  at.ordinal = 0;
  if constexpr (kSave != Save::none) {
    const int window = unit * kUnit / 32, position = 32 * window + lane;
    const bool first = position < chunk.valid && (__ldg(&chunk.record[position].payload) & kFirst) != 0;
    const unsigned before = __ballot_sync(~0u, first) & device::bits_below(at.begin & 31);
    at.ordinal = chunk.window[window].groups_before + __popc(before) - 1;
  }
  return at;
}

/// Writes the group that begins at record j, if any: fold, snapshot, new row.
template <typename S, Save kSave, int kPart>
__device__ __forceinline__ void write_group(const LaneView<S>& v, const ChunkRecords& chunk, const Positions<kPart>& at,
                                            int j, int ordinal, const uint4& base, const RowCoder& coder) {
  const uint4 record = at.record[j];
  const int width = at.first(j) ? v.width : 0;
  float x[S::kElements], sum[S::kElements], decay = __uint_as_float(record.w);
  load_token<S>(v.token_row, record.x, x);
#pragma unroll
  for (int e = 0; e < S::kElements; ++e) sum[e] = fma_rn(__uint_as_float(record.z), x[e], 0.0f);
  if ((record.x & (kFirst | kLast)) == kFirst) [[unlikely]] {
    const auto* next = reinterpret_cast<const uint4*>(chunk.record + at.begin + j + 1);
    uint4 member = __ldg(next);
#pragma unroll 1
    while (true) {
      const uint4 now = member;
      const bool last = (now.x & kLast) != 0;
      if (!last) member = __ldg(++next);
      load_token<S>(v.token_row, now.x, x);
#pragma unroll
      for (int e = 0; e < S::kElements; ++e) sum[e] = fma_rn(__uint_as_float(now.z), x[e], sum[e]);
      decay = __uint_as_float(now.w);
      if (last) break;
    }
  }
  device::widen<typename S::T>(base, x);
  if constexpr (kSave != Save::none)
    save_columns<S, kSave>(row_at(v.saved, ordinal, v.saved_row_bytes), width, base, x, coder);
#pragma unroll
  for (int e = 0; e < S::kElements; ++e) sum[e] = fma_rn(x[e], decay, sum[e]);
  store_columns<S>(row_at(v.bank, at.slot(j), v.row_bytes), width, device::narrow<typename S::T>(sum));
}

/// Requests the base rows of all groups that begin here.
template <typename S, int kPart>
__device__ __forceinline__ void load_rows(const LaneView<S>& v, const Positions<kPart>& at, uint4 (&base)[kPart]) {
#pragma unroll
  for (int j = 0; j < kPart; ++j)
    base[j] = load_columns<S>(row_at(v.bank, at.slot(j), v.row_bytes), at.first(j) ? v.width : 0);
}

/// Stores the scales of the rows of groups: lane l of a lane group that of record l.
template <typename S, int kPart>
__device__ __forceinline__ void save_scales(const LaneView<S>& v, const Positions<kPart>& at, float scale) {
  const int lane = static_cast<int>(threadIdx.x) % S::kLanes;
  const unsigned firsts = at.firsts();
  if (v.scales && lane < kPart && ((firsts >> lane) & 1u) != 0)
    v.scales[at.ordinal + __popc(firsts & device::bits_below(lane + 1))] = scale;
}

/// The Batch (walk.cuh) of direct, direct2 and cluster.
template <typename S, Save kSave_, int kPart, typename Exchange = NoExchange>
struct GroupBatch {
  using Shape = S;
  using Unit = Positions<kPart>;
  static constexpr Save kSave = kSave_;
  static constexpr bool kAhead = false;
  Exchange exchange{};

  __device__ __forceinline__ static Unit load(const ChunkRecords& chunk, int unit) {
    return load_positions<S, kSave, kPart>(chunk, unit);
  }
  /// A lane asks for 64 bytes, what the L2 fetches at least.
  __device__ __forceinline__ static void prefetch(const LaneView<S>& v, const ChunkRecords&, int, const Unit& at) {
    if constexpr (S::kAligned) {
      if (threadIdx.x % 4 != 0 || v.width == 0) return;
#pragma unroll
      for (int j = 0; j < kPart; ++j)
        if (at.first(j))
          asm volatile("prefetch.global.L2 [%0];" ::"l"(row_at(v.bank, at.slot(j), v.row_bytes)) : "memory");
    }
  }
  template <typename Ready>
  __device__ __forceinline__ void operator()(const LaneView<S>& v, const ChunkRecords& chunk, int /*unit*/,
                                             const Unit& at, Ready& ready) {
    uint4 base[kPart];
    load_rows(v, at, base);
    ready();
    RowCoder mine;
    if constexpr (is_quantized(kSave)) {
      mine = batch_coder<S, kSave, kPart>([&](int j) -> const uint4& { return base[j]; }, exchange);
      save_scales(v, at, mine.scale);
    }
    int ordinal = at.ordinal;
#pragma unroll
    for (int j = 0; j < kPart; ++j) {
      RowCoder coder;
      if constexpr (is_quantized(kSave)) coder = coder_of_lane(mine, j, kPart);
      ordinal += static_cast<int>(at.record[j].x >> 31);
      write_group<S, kSave>(v, chunk, at, j, ordinal, base[j], coder);
    }
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
