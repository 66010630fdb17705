#pragma once
// Rows of a matrix on their way into shared memory, for a whole CTA. Compute capability 9.0 and newer: the copy engine
// brings them, a bulk copy a row or one for 4 KiB of rows that lie end to end, and a transaction barrier tells when
// they are there; else every thread copies its share with cp.async. Device code only.
//
// What it saves is instructions that wait in the memory pipe before the rows of the bank: H200, write at default (a CTA
// of 512 threads stages 64 rows of 512 bytes a step), 64 steps: 506 us by cp.async, 458 by bulk copies. The target had
// better begin at a multiple of 128 bytes: 16 bytes further, undo took 736 us in place of 725.
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

/// Starts the copies by cp.async, as one group of each thread's: whole 16-byte vectors.
__device__ __forceinline__ void copy_rows(const RowBlock& block) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warps = static_cast<int>(blockDim.x) / 32;
  for (int column = 4 * lane; column < block.columns; column += 4 * 32)
    for (int row = warp; row < block.count; row += warps)
      copy_async<16>(block.shared + row * block.stride + column, block.rows + std::int64_t{row} * block.pitch + column);
  commit_copies();
}

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
  /// kSameGrid: the rows or the target's old contents were written by this grid, which the engine sees only past a
  /// fence. (It waits for all that the thread has on its way: H200, undo at default 757 us with it, 747 without.)
  template <bool kVector, bool kSameGrid = false>
  __device__ __forceinline__ void start(const RowBlock& block) {
    if constexpr (!kVector) return copy_elements(block);
    if (!engine_) return copy_rows(block);
#if __CUDA_ARCH__ >= 900
    const int total = block.count * block.columns;
    if (threadIdx.x == 0) arrive_expecting(barrier_, total * 4);
    const RowBlock pieces = merged(block, total);
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    const int warps = static_cast<int>(blockDim.x) / 32;
#pragma unroll 1
    for (int row = lane * warps + warp; row < pieces.count; row += 32 * warps) {
      if constexpr (kSameGrid) fence_all_for_engines();
      load_bytes(shared_address(pieces.shared + row * pieces.stride), pieces.rows + std::int64_t{row} * pieces.pitch,
                 4 * min(pieces.columns, total - row * pieces.columns), barrier_);
    }
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
  /// Rows that lie end to end in both memories are one run, which goes in pieces of 4 KiB: the engine takes its time
  /// for every copy, whatever its size.
  __device__ __forceinline__ static RowBlock merged(const RowBlock& block, int total) {
    constexpr int kPiece = 1024;
    if (block.columns != block.pitch || block.columns != block.stride) return block;
    return {block.shared, block.rows, (total + kPiece - 1) / kPiece, kPiece, kPiece, kPiece};
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
