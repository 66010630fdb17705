#pragma once
// What the wgmma and the tcgen05 variant share: the division of a stream's work over CTAs and warpgroups, the ring of
// stages that a feeding warpgroup keeps full, and the parts of a chunk's walk that do not touch accumulators. Device
// code for sm_90 and newer.
#include "kernels/dense_rescan/layout.h"
#include "kernels/dense_rescan/mma.cuh"
#include "kernels/dense_rescan/shape.h"
#include "kernels/dense_rescan/tensor_boxes.cuh"
#include "kernels/dense_rescan/tensor_maps.h"
#include "numerics/exp2.h"

namespace sdm::dense_rescan {

/// Where a CTA works.
struct Place {
  int batch, head, column;  ///< column: of V
  __device__ __forceinline__ int row(const Params& p, int chunk) const { return (batch * p.chunks + chunk) * kChunk; }
  __device__ __forceinline__ int state_row(const Params& p, int chunk) const {
    return ((batch * p.chunks + chunk) * p.heads + head) * p.key_dim;
  }
};
template <typename S>
__device__ __forceinline__ Place place_of(const Params& p) {
  const int tiles = p.value_dim / S::kColumns, stream = static_cast<int>(blockIdx.x) / tiles;
  return {stream / p.heads, stream % p.heads, static_cast<int>(blockIdx.x) % tiles * S::kColumns};
}

/// Transaction barriers of a CTA: stages full and empty, d_out full and empty.
template <typename S>
struct Barriers {
  std::uint32_t base;
  static constexpr int kCount = 2 * S::Memory::kStages + 2;
  __device__ __forceinline__ std::uint32_t full(int stage) const { return base + S::Memory::barrier(stage); }
  __device__ __forceinline__ std::uint32_t empty(int stage) const {
    return base + S::Memory::barrier(S::Memory::kStages + stage);
  }
  __device__ __forceinline__ std::uint32_t query_full() const { return base + S::Memory::barrier(kCount - 2); }
  __device__ __forceinline__ std::uint32_t query_empty() const { return base + S::Memory::barrier(kCount - 1); }

  /// One thread.
  __device__ __forceinline__ void init() const {
    for (int i = 0; i < S::Memory::kStages; ++i) init_barrier(full(i), 1), init_barrier(empty(i), S::kGroups);
    init_barrier(query_full(), 1), init_barrier(query_empty(), S::kGroups);
    fence_barrier_init();
  }
};

/// One thread: w, kg, u and the gates of every chunk into the ring.
template <typename S>
__device__ __forceinline__ void feed_ring(const Params& p, const Maps& maps, const Place& place, std::uint32_t base) {
  using M = typename S::Memory;
  const Barriers<S> barriers{base};
#pragma unroll 1
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const int stage = chunk % M::kStages, round = chunk / M::kStages, row = place.row(p, chunk);
    if (round > 0) wait(barriers.empty(stage), (round - 1) & 1);
    const std::uint32_t full = barriers.full(stage);
    arrive_expecting(full, M::kStage + M::kGates);
#pragma unroll
    for (int box = 0; box < S::kK / kBoxColumns; ++box)
      load_box(base + M::w(stage) + box * M::kBoxBytes, maps.w, place.head * S::kK + box * kBoxColumns, row, full);
#pragma unroll
    for (int box = 0; box < S::kColumns / kBoxColumns; ++box)
      load_box(base + M::v(stage) + box * M::kBoxBytes, maps.u,
               place.head * p.value_dim + place.column + box * kBoxColumns, row, full);
#pragma unroll
    for (int box = 0; box < S::kK / kBoxColumns; ++box)
      load_box(base + M::kg(stage) + box * M::kBoxBytes, maps.kg, place.head * S::kK + box * kBoxColumns, row, full);
    const std::int64_t last = (static_cast<std::int64_t>(row) + kChunk - 1) * p.heads + place.head;
    load_bytes(base + M::gates(stage), p.g2 + last * S::kK, M::kGates, full);
  }
}

/// One thread: d_out of every chunk into its own buffer, which dq frees at each chunk's end.
template <typename S>
__device__ __forceinline__ void feed_query(const Params& p, const Maps& maps, const Place& place, std::uint32_t base) {
  using M = typename S::Memory;
  const Barriers<S> barriers{base};
#pragma unroll 1
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    if (chunk > 0) wait(barriers.query_empty(), (chunk - 1) & 1);
    arrive_expecting(barriers.query_full(), M::kValues);
#pragma unroll
    for (int box = 0; box < S::kColumns / kBoxColumns; ++box)
      load_box(base + M::d_out + box * M::kBoxBytes, maps.d_out,
               place.head * p.value_dim + place.column + box * kBoxColumns, place.row(p, chunk), barriers.query_full());
  }
}

/// A warpgroup that computes, as far as both variants agree: columns [kWidth*group, +kWidth) of the CTA's. Matrices of
/// 16 rows are held by a warp as fragments (mma.cuh), 4 numbers per 8 columns and lane.
template <typename S>
struct Walker {
  using T = typename S::T;
  using M = typename S::Memory;
  static constexpr int kPairs = S::kWidth / 16, kBoxes = S::kWidth / kBoxColumns;
  static constexpr int kQueryRows = S::kK / S::kGroups;  ///< columns of dq that a warpgroup makes

  const Params& p;
  const Maps& maps;
  Place place;
  std::uint32_t base;

  /// Read anew where it is used: whatever follows from it then costs no registers from chunk to chunk.
  struct Lane {
    int warp, lane;  ///< of the warpgroup, of the warp
  };
  __device__ __forceinline__ static Lane here() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return {thread / 32 % 4, thread % 32};
  }
  /// The same in all lanes, and known to be.
  __device__ __forceinline__ static int group_index() {
    int thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return S::kGroups == 1 ? 0 : __shfl_sync(~0u, thread / 128, 0);
  }
  __device__ __forceinline__ static bool leads() { return threadIdx.x % 128 == 0; }
  __device__ __forceinline__ static void group_barrier() { named_barrier(2 + group_index(), 128); }

  /// Where the lane's numbers of 16 rows from `first` on begin in h0 and final_state.
  __device__ __forceinline__ std::int64_t state_at(int first) const {
    const int lane = here().lane, row = first + lane / 4;
    return ((static_cast<std::int64_t>(place.batch) * p.heads + place.head) * S::kK + row) * p.value_dim +
           place.column + group_index() * S::kWidth + 2 * (lane % 4);
  }
  /// 16 rows of h0 from `first` on; zeros without one.
  __device__ __forceinline__ void load_state(float* h, int first) const {
    const std::int64_t at = state_at(first);
#pragma unroll
    for (int j = 0; j < S::kWidth / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float* from = p.h0 + at + static_cast<std::int64_t>(8 * half) * p.value_dim + 8 * j;
        const float2 pair = p.h0 ? *reinterpret_cast<const float2*>(from) : make_float2(0.0f, 0.0f);
        h[4 * j + 2 * half] = pair.x, h[4 * j + 2 * half + 1] = pair.y;
      }
  }
  __device__ __forceinline__ void store_state(const float* h, int first) const {
    float* to = p.final_state + state_at(first);
#pragma unroll
    for (int j = 0; j < S::kWidth / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        *reinterpret_cast<float2*>(to + static_cast<std::int64_t>(8 * half) * p.value_dim + 8 * j) =
            make_float2(h[4 * j + 2 * half], h[4 * j + 2 * half + 1]);
  }

  /// The lane's address for four 8 x 8 matrices of a 16 x 16 block: rows from `row` on, columns 16*pair of the group,
  /// in a matrix of boxes of `rows` rows.
  __device__ __forceinline__ static std::uint32_t block_address(int lane, int group, std::uint32_t matrix, int rows,
                                                                int row, int pair) {
    return matrix + block_row(rows, row, group * (S::kWidth / 8) + 2 * pair, lane);
  }
  /// io(h) of 16 rows from `first` on to the shared copy of the state.
  __device__ __forceinline__ void store_rounded(const float* h, int first) const {
    const int lane = here().lane, group = group_index();
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      const float* d = h + 8 * pair;
      const std::uint32_t packed[4] = {pack<T>(d[0], d[1]), pack<T>(d[2], d[3]), pack<T>(d[4], d[5]),
                                       pack<T>(d[6], d[7])};
      store_matrices(block_address(lane, group, base, S::kK, first, pair), packed);
    }
  }
  /// 16 rows of the state from `first` on, times exp2 of their gates.
  __device__ __forceinline__ void decay(float* h, int first, int stage) const {
    const std::uint32_t gates = base + M::gates(stage) + 4 * (first + here().lane / 4);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float gate;
      asm volatile("ld.shared.f32 %0, [%1];" : "=f"(gate) : "r"(gates + 32 * half) : "memory");
      const float factor = exp2_rn(gate);
#pragma unroll
      for (int j = 0; j < S::kWidth / 8; ++j) {
        h[4 * j + 2 * half] = factor * h[4 * j + 2 * half];
        h[4 * j + 2 * half + 1] = factor * h[4 * j + 2 * half + 1];
      }
    }
  }
  /// v_new = io(u - wh) in u's place; wh: tokens 16*warp...
  __device__ __forceinline__ void replace_values(const float* wh, int stage) const {
    const auto [warp, lane] = here();
    const int group = group_index();
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      const std::uint32_t address = block_address(lane, group, base + M::v(stage), kChunk, 16 * warp, pair);
      std::uint32_t v[4];
      load_matrices(v, address);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        v[i] = pack<T>(low_of<T>(v[i]) - wh[8 * pair + 2 * i], high_of<T>(v[i]) - wh[8 * pair + 2 * i + 1]);
      store_matrices(address, v);
    }
  }

  /// One thread: the group's columns of io(h) to the checkpoint.
  __device__ __forceinline__ void send_checkpoint(int chunk) const {
    const int group = group_index();
    if (!leads()) return;
#pragma unroll
    for (int box = group * kBoxes; box < (group + 1) * kBoxes; ++box)
      store_box(maps.checkpoints, place.column + box * kBoxColumns, place.state_row(p, chunk),
                base + box * S::kK * kBoxRowBytes);
    commit_stores();
  }
  /// One thread: the group's columns of v_new.
  __device__ __forceinline__ void send_values(int stage, int chunk) const {
    const int group = group_index();
    if (!leads()) return;
#pragma unroll
    for (int box = group * kBoxes; box < (group + 1) * kBoxes; ++box)
      store_box(maps.v_new, place.head * p.value_dim + place.column + box * kBoxColumns, place.row(p, chunk),
                base + M::v(stage) + box * M::kBoxBytes);
    commit_stores();
  }
  /// One thread: the stage of the chunk before and d_out's buffer are free again.
  __device__ __forceinline__ void free_stage(int chunk) const {
    if (!leads() || chunk == 0) return;
    const Barriers<S> barriers{base};
    arrive(barriers.empty((chunk - 1) % M::kStages));
    if constexpr (S::kDq) arrive(barriers.query_empty());
  }

  /// The group's columns of dq, tokens 16*warp...
  __device__ __forceinline__ void write_query(const float* dq, int chunk) const {
    const auto [warp, lane] = here();
    const std::int64_t token = static_cast<std::int64_t>(place.row(p, chunk)) + 16 * warp + lane / 4;
    float* to = p.dq + (token * p.heads + place.head) * S::kK + group_index() * kQueryRows + 2 * (lane % 4);
#pragma unroll
    for (int half = 0; half < 2; ++half, to += static_cast<std::int64_t>(8) * p.heads * S::kK)
#pragma unroll
      for (int j = 0; j < kQueryRows / 8; ++j) {
        const float2 pair = make_float2(dq[4 * j + 2 * half], dq[4 * j + 2 * half + 1]);
        if (p.dq_mode == DqMode::atomic)
          atomicAdd(to + 8 * j, pair.x), atomicAdd(to + 8 * j + 1, pair.y);
        else
          *reinterpret_cast<float2*>(to + 8 * j) = pair;
      }
  }
};

}  // namespace sdm::dense_rescan
