#pragma once
// The roles of the tcgen05 variant beside the feeding of the ring: one thread begins all products, warpgroups round,
// decay and store. Device code for sm_100a.
//
// A chunk, with what each side waits for:
//   workers  state (after update)  -> io(h) to shared memory and the checkpoint; state *= decay   arrive: state
//   products (state, stage full)   -> work = w io(h)                                              arrive: product
//   workers  (product)             -> v_new = io(u - work) in u's place, stored                   arrive: values
//   products (values, d_out full)  -> state += kg^T v_new; work = d_out io(h)^T                   arrive: update
//   workers  (update)              -> dq from work, at the next chunk's begin
// Each barrier passes once a chunk, so its parity is the chunk's.
#include "kernels/dense_rescan/ring.cuh"
#include "kernels/dense_rescan/tcgen05.cuh"

namespace sdm::dense_rescan {

/// Columns of tensor memory: the state [K, kColumns], then the work area that w io(h) and dq take turns in.
template <typename S>
struct TensorColumns {
  static constexpr int kWork = S::kColumns;
  static constexpr int kWorkWidth = S::kDq && S::kK > S::kColumns ? S::kK : S::kColumns;
  static constexpr int kNeeded = kWork + kWorkWidth;
  static constexpr int kAllocated = kNeeded <= 128 ? 128 : kNeeded <= 256 ? 256 : 512;
  static_assert(kNeeded <= 512);
};

template <typename S>
struct TensorBarriers : Barriers<S> {
  using Barriers<S>::base, Barriers<S>::kCount;
  static constexpr int kWorkers = 128 * S::kGroups;
  __device__ __forceinline__ std::uint32_t state() const { return base + S::Memory::barrier(kCount); }
  __device__ __forceinline__ std::uint32_t product() const { return base + S::Memory::barrier(kCount + 1); }
  __device__ __forceinline__ std::uint32_t values() const { return base + S::Memory::barrier(kCount + 2); }
  __device__ __forceinline__ std::uint32_t update() const { return base + S::Memory::barrier(kCount + 3); }
  /// Where the address of the tensor memory is written.
  __device__ __forceinline__ std::uint32_t slot() const { return base + S::Memory::barrier(kCount + 4); }
  static_assert(S::Memory::barrier(kCount + 5) <= S::Memory::kBytes);

  /// One thread.
  __device__ __forceinline__ void init() const {
    init_barrier(state(), kWorkers), init_barrier(product(), 1);
    init_barrier(values(), kWorkers), init_barrier(update(), 1);
    Barriers<S>::init();
  }
};

/// One thread: all products of the walk. `tensor`: address of the tensor memory.
template <typename S>
__device__ __forceinline__ void issue_products(const Params& p, std::uint32_t base, std::uint32_t tensor) {
  using M = typename S::Memory;
  constexpr bool kBf16 = std::is_same_v<typename S::T, bf16_t>;
  constexpr std::uint32_t kProduct = product_instruction(kBf16, kChunk, S::kColumns, false, true);
  constexpr std::uint32_t kUpdate = product_instruction(kBf16, S::kK, S::kColumns, true, true);
  constexpr std::uint32_t kQuery = product_instruction(kBf16, kChunk, S::kK, false, false);
  const TensorBarriers<S> barriers{{base}};
  const std::uint32_t work = tensor + TensorColumns<S>::kWork;
#pragma unroll 1
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const int stage = chunk % M::kStages;
    wait(barriers.full(stage), chunk / M::kStages & 1);
    wait(barriers.state(), chunk & 1);
    fence_after_sync();
#pragma unroll
    for (int step = 0; step < S::kK / 16; ++step)
      tensor_product(work, tensor_descriptor(along_rows(base + M::w(stage), kChunk, 0, step)),
                     tensor_descriptor(down_rows(base, S::kK, 0, step)), kProduct, step > 0);
    arrive_after_products(barriers.product());
    wait(barriers.values(), chunk & 1);
    fence_after_sync();
#pragma unroll
    for (int step = 0; step < kChunk / 16; ++step)
      tensor_product(tensor, tensor_descriptor(down_rows(base + M::kg(stage), kChunk, 0, step)),
                     tensor_descriptor(down_rows(base + M::v(stage), kChunk, 0, step)), kUpdate, 1);
    if constexpr (S::kDq) {
      wait(barriers.query_full(), chunk & 1);
#pragma unroll
      for (int step = 0; step < S::kColumns / 16; ++step)
        tensor_product(work, tensor_descriptor(along_rows(base + M::d_out, kChunk, 0, step)),
                       tensor_descriptor(along_rows(base, S::kK, 0, step)), kQuery, step > 0);
    }
    arrive_after_products(barriers.update());
  }
}

/// A computing warpgroup: columns [kWidth*group, +kWidth) of the CTA's. Between products the state is in tensor memory.
template <typename S>
struct TensorWorker : Walker<S> {
  using typename Walker<S>::M;
  using Walker<S>::p, Walker<S>::base, Walker<S>::here, Walker<S>::group_index;
  static constexpr int kBlocks = S::kK / 64;  ///< blocks of 16 state rows a warp: rows 16*(kBlocks*warp + m)..

  std::uint32_t tensor;

  /// The warp's lanes and, from `column` on, the warpgroup's columns of a matrix; 16 rows further for m = 1.
  __device__ __forceinline__ std::uint32_t fragment_address(int column, int m) const {
    return tensor + column + (static_cast<std::uint32_t>(32 * here().warp + 16 * m) << 16);
  }
  /// For a phase that ends with products done; the warp goes on as one, as accesses to tensor memory want it.
  __device__ __forceinline__ static void wait_for(std::uint32_t barrier, int chunk) {
    wait(barrier, chunk & 1);
    __syncwarp();
    fence_after_sync();
  }
  template <typename Body>  // body(first row, address of 16 rows of the state)
  __device__ __forceinline__ void for_blocks(Body&& body) const {
    const int warp = here().warp, column = group_index() * S::kWidth;
#pragma unroll
    for (int m = 0; m < kBlocks; ++m) body(16 * (kBlocks * warp + m), fragment_address(column, m));
  }

  /// io(h) to shared memory, the decayed state back to where it was.
  __device__ __forceinline__ void round_and_decay(int stage) const {
    for_blocks([&](int first, std::uint32_t address) {
      float h[S::kWidth / 2];
      load_tensor(h, address);
      wait_tensor_loads();
      pin(h);
      this->store_rounded(h, first);
      this->decay(h, first, stage);
      store_tensor(address, h);
    });
    wait_tensor_stores();
  }

  __device__ __forceinline__ void new_values(int stage) const {
    float wh[S::kWidth / 2];
    load_tensor(wh, fragment_address(TensorColumns<S>::kWork + group_index() * S::kWidth, 0));
    wait_tensor_loads();
    pin(wh);
    this->replace_values(wh, stage);
  }

  /// What the products of `chunk` leave: waits for them, and writes its columns of dq.
  __device__ __forceinline__ void end_chunk(int chunk) const {
    wait_for(TensorBarriers<S>{{base}}.update(), chunk);
    if constexpr (S::kDq) {
      float dq[Walker<S>::kQueryRows / 2];
      load_tensor(dq, fragment_address(TensorColumns<S>::kWork + group_index() * Walker<S>::kQueryRows, 0));
      wait_tensor_loads();
      pin(dq);
      this->write_query(dq, chunk);
    }
  }

  __device__ __forceinline__ void walk() const {
    const TensorBarriers<S> barriers{{base}};
    for_blocks([&](int first, std::uint32_t address) {
      float h[S::kWidth / 2];
      this->load_state(h, first);
      store_tensor(address, h);
    });
    wait_tensor_stores();
#pragma unroll 1
    for (int chunk = 0; chunk < p.chunks; ++chunk) {
      const int stage = chunk % M::kStages;
      if (chunk > 0) end_chunk(chunk - 1);
      if (this->leads()) wait_stores_read();
      this->group_barrier();  // stores are done with what they read
      this->free_stage(chunk);
      wait(barriers.full(stage), chunk / M::kStages & 1);
      __syncwarp();
      round_and_decay(stage);
      fence_for_engines();
      fence_before_sync();
      arrive(barriers.state());
      this->group_barrier();
      this->send_checkpoint(chunk);
      wait_for(barriers.product(), chunk);
      new_values(stage);
      fence_for_engines();
      fence_before_sync();
      arrive(barriers.values());
      this->group_barrier();
      this->send_values(stage, chunk);
    }
    end_chunk(p.chunks - 1);
    for_blocks([&](int first, std::uint32_t address) {
      float h[S::kWidth / 2];
      load_tensor(h, address);
      wait_tensor_loads();
      pin(h);
      this->store_state(h, first);
    });
    if (this->leads()) wait_stores();
  }
};

}  // namespace sdm::dense_rescan
