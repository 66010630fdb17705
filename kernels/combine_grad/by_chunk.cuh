#pragma once
// U = QK^T gr and base_dva = S^T U of some columns of a chunk by one CTA, so that U is not read again. The rows of a
// product lie whole in shared memory, and U takes the place of gr; the factors pass through two stages of 16 k. Device
// code only.
#include "kernels/combine_grad/combine_grad.h"
#include "kernels/common/async_copy.cuh"
#include "kernels/common/triangular.cuh"

namespace sdm::combine_grad {

/// A thread makes kThreadRows x 8 outputs: pairs of rows kRun apart, so that the p-th pairs of all threads are a run of
/// rows, and the k of the p-th run concern the pairs up to the p-th.
template <int kRows_, int kThreadRows_, int kThreadsX>
struct ChunkTile {
  static constexpr int kRows = kRows_, kThreadRows = kThreadRows_, kPairs = kThreadRows / 2;
  static constexpr int kThreadsY = kRows / kThreadRows, kThreads = kThreadsX * kThreadsY, kRun = 2 * kThreadsY;
  static constexpr int kColumns = 8 * kThreadsX, kHalf = kColumns / 2;
  static constexpr int kDepth = 16, kUnit = kRun < kDepth ? kRun : kDepth;  // k of a stage; k folded in one go
  static constexpr int kResident = (kThreadRows > 8 ? 256 : 512) / kThreads;
  __device__ static __forceinline__ int x() { return device::warp_id() % (kThreadsX / 8) * 8 + device::lane_id() % 8; }
  __device__ static __forceinline__ int y() { return device::warp_id() / (kThreadsX / 8) * 4 + device::lane_id() / 8; }
};

template <typename Tile>
struct ChunkMemory {
  float rows[Tile::kRows * Tile::kColumns];
  float factor[2][Tile::kDepth * Tile::kRows];  // [k][row]
};

/// One CTA's work: columns d0 .. d0 + kColumns - 1 of the chunk.
template <typename Tile>
struct ChunkProducts {
  const Params& p;
  ChunkMemory<Tile>& memory;
  std::int64_t chunk;
  int d0;
  int stage = 0;  ///< which of the two comes next
  float acc[Tile::kThreadRows][2][4];

  /// Of the first product, the rows come along.
  __device__ __forceinline__ void fetch(bool first, int k0) const {
    constexpr int kEach = Tile::kThreads / Tile::kDepth, kAcross = Tile::kColumns / 4;
    const int c = p.dims.chunk, d = p.dims.head_dim, thread = static_cast<int>(threadIdx.x);
    const int k = k0 + thread / kEach, vectors = min(k0 + Tile::kDepth, c) / 4;
    const float* from = (first ? p.qk : p.s) + (chunk * c + k) * c;
    float* to = memory.factor[stage] + thread / kEach * Tile::kRows;
    if (k < c)
#pragma unroll 1
      for (int v = thread % kEach; v < vectors; v += kEach) device::copy_async<16>(to + 4 * v, from + 4 * v);
    if (first) {
#pragma unroll
      for (int v = thread; v < Tile::kDepth * kAcross; v += Tile::kThreads) {
        const int row = k0 + v / kAcross, column = v % kAcross * 4;
        if (row < c && d0 + column < d)
          device::copy_async<16>(memory.rows + row * Tile::kColumns + column,
                                 p.d_reading + (chunk * c + row) * d + d0 + column);
      }
    }
    device::commit_copies();
  }

  /// Folds `count` terms from k0 on, of the kPart-th run.
  template <int kPart>
  __device__ __forceinline__ void fold(const float* factor, int k0, int count) {
    const int y = Tile::y();
    const float* own = factor + k0 % Tile::kDepth * Tile::kRows + 2 * y;
    const float* rows = memory.rows + k0 * Tile::kColumns + 4 * Tile::x();
#pragma unroll 4
    for (int k = 0; k < count; ++k) {
      float x[2][4];
#pragma unroll
      for (int h = 0; h < 2; ++h)
        device::unpack(*reinterpret_cast<const float4*>(rows + k * Tile::kColumns + h * Tile::kHalf), x[h]);
#pragma unroll
      for (int g = 0; g <= kPart; ++g) {
        const float2 pair = *reinterpret_cast<const float2*>(own + k * Tile::kRows + g * Tile::kRun);
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          const bool inside = g < kPart || k0 + k - kPart * Tile::kRun >= 2 * y + i;
          auto& out = acc[2 * g + i];
#pragma unroll
          for (int s = 0; s < 8; ++s)
            if (inside) out[s / 4][s % 4] = fma_rn(i == 0 ? pair.x : pair.y, x[s / 4][s % 4], out[s / 4][s % 4]);
        }
      }
    }
  }
  template <int kPart = 0>
  __device__ __forceinline__ void fold_part(int part, const float* factor, int k0, int count) {
    if constexpr (kPart + 1 < Tile::kPairs) {
      if (part != kPart) return fold_part<kPart + 1>(part, factor, k0, count);
    }
    fold<kPart>(factor, k0, count);
  }

  /// A whole product. The next stage is on its way while one is used.
  __device__ __forceinline__ void run(bool first) {
    const int c = p.dims.chunk;
#pragma unroll
    for (int r = 0; r < Tile::kThreadRows; ++r)
#pragma unroll
      for (int s = 0; s < 8; ++s) acc[r][s / 4][s % 4] = 0.0f;
#pragma unroll 1
    for (int k0 = 0; k0 < c; k0 += Tile::kUnit) {
      if (k0 % Tile::kDepth == 0) {
        device::wait_copies_but<0>();
        __syncthreads();  // the stage is there, and everyone has left the other one
        stage ^= 1;
        const bool more = k0 + Tile::kDepth < c;
        if (more || first) fetch(more && first, more ? k0 + Tile::kDepth : 0);
      }
      fold_part(k0 / Tile::kRun, memory.factor[stage ^ 1], k0, min(Tile::kUnit, c - k0));
    }
  }

  __device__ __forceinline__ void store(bool first) const {
    const int c = p.dims.chunk, d = p.dims.head_dim;
    int first_row = 2 * Tile::y(), first_column = 4 * Tile::x();
    asm volatile("" : "+r"(first_row), "+r"(first_column));  // or places of outputs fill the registers from the start
    float* out = (first ? p.u : p.base_dva) + (chunk * c + first_row) * d + d0 + first_column;
#pragma unroll
    for (int r = 0; r < Tile::kThreadRows; ++r)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int apart = r / 2 * Tile::kRun + r % 2, row = first_row + apart, column = first_column + h * Tile::kHalf;
        if (row >= c || d0 + column >= d) continue;
        const float4 v = make_float4(acc[r][h][0], acc[r][h][1], acc[r][h][2], acc[r][h][3]);
        if (first) *reinterpret_cast<float4*>(memory.rows + row * Tile::kColumns + column) = v;
        *reinterpret_cast<float4*>(out + apart * d + h * Tile::kHalf) = v;
      }
  }
};

/// grid: the column tiles of a chunk, chunk after chunk.
template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kResident)
    chunk_kernel(const __grid_constant__ Params p, int column_tiles) {
  auto& memory = *reinterpret_cast<ChunkMemory<Tile>*>(device::dynamic_shared());
  device::wait_for_previous_grid();
  const int tile = static_cast<int>(blockIdx.x % static_cast<unsigned>(column_tiles));
  ChunkProducts<Tile> work{p, memory, blockIdx.x / static_cast<unsigned>(column_tiles), tile * Tile::kColumns};
  work.fetch(true, 0);
#pragma unroll 1
  for (int product = 0; product < 2; ++product) {
    work.run(product == 0);
    __syncthreads();  // everyone is done with the rows
    work.store(product == 0);
  }
}

}  // namespace sdm::combine_grad
