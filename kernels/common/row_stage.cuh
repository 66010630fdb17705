#pragma once
// Rows of a matrix on their way into shared memory, for a whole CTA. Compute capability 9.0 and newer: the copy engine
// brings them, one bulk copy a row, and a transaction barrier tells when they are there; else every thread copies its
// share with cp.async. Device code only.
//
// What it saves is instructions that wait in the memory pipe before the rows of the bank: H200, write at default (a CTA
// of 512 threads stages 64 rows of 512 bytes a step), 64 steps: 506 us by cp.async, 458 by bulk copies.
#include "kernels/common/async_copy.cuh"
#include "kernels/common/copy_engine.cuh"

namespace sdm::device {

/// `count` rows of `columns` floats, `pitch` floats apart in global memory, `stride` apart in shared memory. For copies
/// of whole 16-byte vectors all of these and both addresses are multiples of 4 floats.
struct RowBlock {
  float* shared;
  const float* rows;
  int count, columns, pitch, stride;
};

class RowStage {
 public:
  /// Called by the whole CTA; a barrier of the CTA must follow before the first start(). `barrier`: 8 bytes of shared
  /// memory of its own. `engine`: use the copy engine (where the GPU has one).
  __device__ __forceinline__ RowStage(std::uint64_t* barrier, bool engine)
      : barrier_(shared_address(barrier)), engine_(engine) {
#if __CUDA_ARCH__ >= 900
    if (engine_ && threadIdx.x == 0)
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n\tfence.mbarrier_init.release.cluster;" ::"r"(barrier_)
                   : "memory");
#endif
  }
  /// Starts the copies. Nobody uses the target any more: a barrier of the CTA lies between.
  /// kVector: rows are whole 16-byte vectors; else the elements are copied at once, without the engine.
  template <bool kVector>
  __device__ __forceinline__ void start(const RowBlock& block) {
    if constexpr (!kVector) return copy_elements(block);
    if (!engine_) return copy_vectors(block);
#if __CUDA_ARCH__ >= 900
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int warps = static_cast<int>(blockDim.x) / 32, bytes = block.columns * 4;
    if (threadIdx.x == 0) arrive_expecting(barrier_, block.count * bytes);
    // Ordinary accesses to the target, and ordinary writes of the rows that this CTA has seen, come before the
    // engine's.
    fence_all_for_engines();
#pragma unroll 1
    for (int row = lane * warps + warp; row < block.count; row += 32 * warps)
      load_bytes(shared_address(block.shared + row * block.stride), block.rows + std::int64_t{row} * block.pitch, bytes,
                 barrier_);
#endif
  }
  /// The rows have come. Called by the whole CTA once for every start(). `newer`: groups of asynchronous copies that
  /// this thread has begun since; without the engine they stay on their way.
  template <bool kVector>
  __device__ __forceinline__ void wait(int newer = 0) {
#if __CUDA_ARCH__ >= 900
    if (kVector && engine_) {
      device::wait(barrier_, static_cast<int>(parity_));
      parity_ ^= 1u;
      return;
    }
#endif
    wait_copies_but(newer);
    __syncthreads();
  }

 private:
  __device__ __forceinline__ static void copy_vectors(const RowBlock& block) {
    const int quads = block.columns / 4;
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < block.count * quads; i += static_cast<int>(blockDim.x)) {
      const int row = i / quads, column = (i - row * quads) * 4;
      copy_async<16>(block.shared + row * block.stride + column, block.rows + std::int64_t{row} * block.pitch + column);
    }
    commit_copies();
  }
  __device__ __forceinline__ static void copy_elements(const RowBlock& block) {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < block.count * block.columns; i += static_cast<int>(blockDim.x)) {
      const int row = i / block.columns, column = i - row * block.columns;
      block.shared[row * block.stride + column] = __ldcg(block.rows + std::int64_t{row} * block.pitch + column);
    }
  }

  std::uint32_t barrier_, parity_ = 0;
  bool engine_;
};

}  // namespace sdm::device
