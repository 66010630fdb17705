#pragma once
// A computing warpgroup of the wgmma variant: walks a stream's chunks with its columns of the state in accumulators.
// Device code for sm_90a.
#include "kernels/dense_rescan/ring.cuh"
#include "kernels/dense_rescan/wgmma.cuh"

namespace sdm::dense_rescan {

template <typename S>
struct Worker : Walker<S> {
  using typename Walker<S>::T;
  using typename Walker<S>::M;
  using Walker<S>::p, Walker<S>::place, Walker<S>::base, Walker<S>::here, Walker<S>::group_index, Walker<S>::kBoxes;
  static constexpr int kBlocks = S::kK / 64;
  using State = float[kBlocks][S::kWidth / 2];  // rows 64m + 16*warp.., as in wgmma.cuh

  /// Where dq reads all of the state, the warpgroups go in step.
  __device__ __forceinline__ static void state_barrier() {
    if constexpr (S::kDq)
      named_barrier(1, 128 * S::kGroups);
    else
      Walker<S>::group_barrier();
  }
  template <typename Body>  // body(block, its first row)
  __device__ __forceinline__ static void for_blocks(Body&& body) {
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) body(m, 64 * m + 16 * here().warp);
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
    for_blocks([&](int m, int first) { this->decay(h[m], first, stage); });
    wait_products();
    pin(wh);
    this->replace_values(wh, stage);
    fence_for_engines();
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
  __device__ __forceinline__ static void end_update(State& h) {
    wait_products();
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) pin(h[m]);
  }

  /// The update, and beside it this warpgroup's columns of dq = d_out io(h)^T over the CTA's columns of V.
  __device__ __forceinline__ void update_with_query(State& h, int stage, int chunk) const {
    constexpr int kQueryRows = Walker<S>::kQueryRows;
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
    this->write_query(dq, chunk);
  }

  __device__ __forceinline__ void walk() const {
    const Barriers<S> barriers{base};
    State h;
    for_blocks([&](int m, int first) { this->load_state(h[m], first); });
#pragma unroll 1
    for (int chunk = 0; chunk < p.chunks; ++chunk) {
      const int stage = chunk % M::kStages;
      if (this->leads()) wait_stores_read();
      state_barrier();  // all are done with the last chunk's products, and its stores with what they read
      this->free_stage(chunk);
      for_blocks([&](int m, int first) { this->store_rounded(h[m], first); });
      fence_for_engines();
      state_barrier();
      this->send_checkpoint(chunk);
      wait(barriers.full(stage), chunk / M::kStages & 1);
      new_values(h, stage);
      this->group_barrier();  // v_new is there
      this->send_values(stage, chunk);
      if constexpr (S::kDq) {
        update_with_query(h, stage, chunk);
      } else {
        begin_update(h, stage);
        end_update(h);
      }
    }
    for_blocks([&](int m, int first) { this->store_state(h[m], first); });
    if (this->leads()) wait_stores();
  }
};

}  // namespace sdm::dense_rescan
