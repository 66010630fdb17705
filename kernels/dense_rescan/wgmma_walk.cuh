#pragma once
// The roles of the wgmma variant's warpgroups: feeding the ring, and walking a stream's chunks. Device code for sm_90a.
#include "kernels/dense_rescan/layout.h"
#include "kernels/dense_rescan/mma.cuh"
#include "kernels/dense_rescan/tensor_maps.h"
#include "kernels/dense_rescan/wgmma.cuh"
#include "numerics/exp2.h"

namespace sdm::dense_rescan {

template <typename T_, int kK_, int kColumns_, bool kDq_>
struct Shape {
  using T = T_;
  static constexpr int kK = kK_, kColumns = kColumns_;
  static constexpr bool kDq = kDq_;
  using Memory = Layout<kK, kColumns, kDq>;
  static constexpr int kGroups = kColumns >= 128 ? 2 : 1;  ///< warpgroups that compute; one more feeds them
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kWidth = kColumns / kGroups;  ///< columns of a warpgroup
};

/// Where a CTA works.
struct Place {
  int batch, head, column;  ///< column: of V
  __device__ __forceinline__ int row(const Params& p, int chunk) const { return (batch * p.chunks + chunk) * kChunk; }
  __device__ __forceinline__ int state_row(const Params& p, int chunk) const {
    return ((batch * p.chunks + chunk) * p.heads + head) * p.key_dim;
  }
};

/// Transaction barriers of a CTA: stages full and empty, d_out full and empty.
template <typename S>
struct Barriers {
  std::uint32_t base;
  __device__ __forceinline__ std::uint32_t full(int stage) const { return base + S::Memory::barrier(stage); }
  __device__ __forceinline__ std::uint32_t empty(int stage) const {
    return base + S::Memory::barrier(S::Memory::kStages + stage);
  }
  __device__ __forceinline__ std::uint32_t query_full() const {
    return base + S::Memory::barrier(2 * S::Memory::kStages);
  }
  __device__ __forceinline__ std::uint32_t query_empty() const {
    return base + S::Memory::barrier(2 * S::Memory::kStages + 1);
  }

  __device__ __forceinline__ void init() const {
    for (int i = 0; i < S::Memory::kStages; ++i) init_barrier(full(i), 1), init_barrier(empty(i), S::kGroups);
    init_barrier(query_full(), 1), init_barrier(query_empty(), S::kGroups);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
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

/// A warpgroup that computes: columns [kWidth*group, +kWidth) of the CTA's.
template <typename S>
struct Worker {
  using T = typename S::T;
  using M = typename S::Memory;
  static constexpr int kBlocks = S::kK / 64, kPairs = S::kWidth / 16, kBoxes = S::kWidth / kBoxColumns;
  using State = float[kBlocks][S::kWidth / 2];  // rows 64m + 16*warp + g (+8), columns 8j + 2q (+1), as in wgmma.cuh

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
  __device__ __forceinline__ bool leads() const { return threadIdx.x % 128 == 0; }
  __device__ __forceinline__ void group_barrier() const { named_barrier(2 + group_index(), 128); }
  /// Where dq reads all of the state, the warpgroups go in step.
  __device__ __forceinline__ void state_barrier() const {
    if constexpr (S::kDq)
      named_barrier(1, 128 * S::kGroups);
    else
      group_barrier();
  }
  /// The lane's address for four 8 x 8 matrices of a 16 x 16 block: rows 16*warp.. of block m, columns 16*pair of the
  /// group, in a matrix of boxes of `rows` rows.
  __device__ __forceinline__ static std::uint32_t block_address(Lane at, int group, std::uint32_t matrix, int rows,
                                                                int m, int pair) {
    return matrix + block_row(rows, 64 * m + 16 * at.warp, group * (S::kWidth / 8) + 2 * pair, at.lane);
  }
  template <typename Body>  // body(state row, column of V, first, second)
  __device__ __forceinline__ void for_pairs(State& h, Body&& body) const {
    const auto [warp, lane] = here();
    const int group = group_index();
#pragma unroll
    for (int m = 0; m < kBlocks; ++m)
#pragma unroll
      for (int j = 0; j < S::kWidth / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          body(64 * m + 16 * warp + lane / 4 + 8 * half, place.column + group * S::kWidth + 8 * j + 2 * (lane % 4),
               h[m][4 * j + 2 * half], h[m][4 * j + 2 * half + 1]);
  }

  /// io(h) to shared memory, and from there to the checkpoint.
  __device__ __forceinline__ void checkpoint(const State& h, int chunk) const {
    const Lane at = here();
    const int group = group_index();
#pragma unroll
    for (int m = 0; m < kBlocks; ++m)
#pragma unroll
      for (int pair = 0; pair < kPairs; ++pair) {
        const float* d = &h[m][8 * pair];
        const std::uint32_t packed[4] = {pack<T>(d[0], d[1]), pack<T>(d[2], d[3]), pack<T>(d[4], d[5]),
                                         pack<T>(d[6], d[7])};
        store_matrices(block_address(at, group, base, S::kK, m, pair), packed);
      }
    fence_for_engines();
    state_barrier();
    if (!leads()) return;
#pragma unroll
    for (int box = group * kBoxes; box < (group + 1) * kBoxes; ++box)
      store_box(maps.checkpoints, place.column + box * kBoxColumns, place.state_row(p, chunk),
                base + box * S::kK * kBoxRowBytes);
    commit_stores();
  }

  /// v_new = io(u - w io(h)) in u's place; the state decays while the product runs.
  __device__ __forceinline__ void new_values(State& h, int stage) const {
    const int group = group_index();
    float wh[S::kWidth / 2] = {};
    pin(wh);
    begin_products();
#pragma unroll
    for (int step = 0; step < S::kK / 16; ++step)
      product<T, 0, 1>(wh, along_rows(base + M::w(stage), 64, 0, step), down_rows(base, S::kK, group * kBoxes, step),
                       step > 0);
    commit_products();
    decay(h, stage);
    wait_products();
    pin(wh);
    const Lane at = here();
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
      const std::uint32_t address = block_address(at, group, base + M::v(stage), 64, 0, pair);
      std::uint32_t v[4];
      load_matrices(v, address);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        v[i] = pack<T>(low_of<T>(v[i]) - wh[8 * pair + 2 * i], high_of<T>(v[i]) - wh[8 * pair + 2 * i + 1]);
      store_matrices(address, v);
    }
    fence_for_engines();
  }

  __device__ __forceinline__ void decay(State& h, int stage) const {
    const auto [warp, lane] = here();
#pragma unroll
    for (int m = 0; m < kBlocks; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float gate;
        asm volatile("ld.shared.f32 %0, [%1];"
                     : "=f"(gate)
                     : "r"(base + M::gates(stage) + 4 * (64 * m + 16 * warp + lane / 4 + 8 * half))
                     : "memory");
        const float factor = exp2_rn(gate);
#pragma unroll
        for (int j = 0; j < S::kWidth / 8; ++j) {
          h[m][4 * j + 2 * half] = factor * h[m][4 * j + 2 * half];
          h[m][4 * j + 2 * half + 1] = factor * h[m][4 * j + 2 * half + 1];
        }
      }
  }

  __device__ __forceinline__ void store_values(int stage, int chunk) const {
    const int group = group_index();
    if (!leads()) return;
#pragma unroll
    for (int box = group * kBoxes; box < (group + 1) * kBoxes; ++box)
      store_box(maps.v_new, place.head * p.value_dim + place.column + box * kBoxColumns, place.row(p, chunk),
                base + M::v(stage) + box * M::kBoxBytes);
    commit_stores();
  }

  /// h += kg^T v_new, under way when it returns.
  __device__ __forceinline__ void begin_update(State& h, int stage) const {
    const int group = group_index();
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) pin(h[m]);
    begin_products();
#pragma unroll
    for (int m = 0; m < kBlocks; ++m)
#pragma unroll
      for (int step = 0; step < kChunk / 16; ++step)
        product<T, 1, 1>(h[m], down_rows(base + M::kg(stage), 64, m, step),
                         down_rows(base + M::v(stage), 64, group * kBoxes, step), 1);
    commit_products();
  }
  __device__ __forceinline__ void end_update(State& h) const {
    wait_products();
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) pin(h[m]);
  }

  /// The update, and beside it this warpgroup's columns of dq = d_out io(h)^T over the CTA's columns of V.
  __device__ __forceinline__ void update_with_query(State& h, int stage, int chunk) const {
    constexpr int kQueryRows = S::kK / S::kGroups;
    const int group = group_index();
    float dq[kQueryRows / 2] = {};
    pin(dq);
    wait(Barriers<S>{base}.query_full(), chunk & 1);
    begin_update(h, stage);
#pragma unroll
    for (int step = 0; step < S::kColumns / 16; ++step)
      product<T, 0, 0>(dq, along_rows(base + M::d_out, 64, 0, step), along_rows(base, S::kK, group * kQueryRows, step),
                       step > 0);
    commit_products();
    end_update(h);
    pin(dq);
    const auto [warp, lane] = here();
    const std::int64_t token = static_cast<std::int64_t>(place.row(p, chunk)) + 16 * warp + lane / 4;
    float* to = p.dq + (token * p.heads + place.head) * S::kK + group * kQueryRows + 2 * (lane % 4);
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

  __device__ __forceinline__ void walk() const {
    const Barriers<S> barriers{base};
    const std::int64_t state = (static_cast<std::int64_t>(place.batch) * p.heads + place.head) * S::kK;
    State h;
    for_pairs(h, [&](int row, int column, float& a, float& b) {
      const float2 x = p.h0 ? *reinterpret_cast<const float2*>(p.h0 + (state + row) * p.value_dim + column)
                            : make_float2(0.0f, 0.0f);
      a = x.x, b = x.y;
    });
#pragma unroll 1
    for (int chunk = 0; chunk < p.chunks; ++chunk) {
      const int stage = chunk % M::kStages;
      if (leads()) wait_stores_read();
      state_barrier();  // all are done with the last chunk's products, and its stores with what they read
      if (leads() && chunk > 0) {
        arrive(barriers.empty((chunk - 1) % M::kStages));
        if constexpr (S::kDq) arrive(barriers.query_empty());
      }
      checkpoint(h, chunk);
      wait(barriers.full(stage), chunk / M::kStages & 1);
      new_values(h, stage);
      group_barrier();  // v_new is there
      store_values(stage, chunk);
      if constexpr (S::kDq) {
        update_with_query(h, stage, chunk);
      } else {
        begin_update(h, stage);
        end_update(h);
      }
    }
    for_pairs(h, [&](int row, int column, float& a, float& b) {
      *reinterpret_cast<float2*>(p.final_state + (state + row) * p.value_dim + column) = make_float2(a, b);
    });
    if (leads()) wait_stores();
  }
};

}  // namespace sdm::dense_rescan
