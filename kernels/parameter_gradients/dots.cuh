#pragma once
// dm and dqk: dots of token rows, [C, D] x [C, D]^T per chunk, each output one fold over ascending d; and the gradients
// by token. Device only.
#include "kernels/common/async_copy.cuh"
#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/common/quads.cuh"
#include "kernels/common/triangular.cuh"
#include "kernels/parameter_gradients/contract.h"
#include "kernels/parameter_gradients/parameter_gradients.h"

namespace sdm::parameter_gradients {

/// 64 rows t of d_dva and of d_reading against 64 rows j of delta_v: dm and dqk of a tile by one CTA of 8 x 8 threads,
/// 8 x 8 dots of either a thread, which lie 8 apart. A shared load costs what it brings to registers, 32 floats a cycle
/// and multiprocessor, also where all lanes want the same: these threads load 24 floats for 128 multiply-adds. On an
/// H200 25 us at default and 556 at flagship; 8 x 4 dots a thread took 34 and 636.
struct DotTile {
  static constexpr int kSide = 64, kAcross = 8, kThreads = kAcross * kAcross, kEach = kSide / kAcross;
  static constexpr int kDepth = 32;           // columns of d of a stage
  static constexpr int kStride = kDepth + 4;  // puts the vectors of neighbouring rows into different banks
  static constexpr int kOperands = 3;         // d_dva, d_reading, delta_v
  __device__ static __forceinline__ int x() { return static_cast<int>(threadIdx.x) % kAcross; }
  __device__ static __forceinline__ int y() { return static_cast<int>(threadIdx.x) / kAcross; }
};
struct alignas(16) DotStage {
  float rows[DotTile::kOperands * DotTile::kSide * DotTile::kStride];  // one operand after the other
};
/// Of dm and of dqk.
using Dots = float[2][DotTile::kEach][DotTile::kEach];

/// A tile on or below the diagonal.
struct DotPlace {
  std::int64_t chunk;
  int t0, j0;
};

/// The lower tiles of a chunk, `item` counting row by row.
__device__ __forceinline__ void lower_tile(int item, int& row, int& column) {
  for (row = 0; item > row; ++row) item -= row + 1;
  column = item;
}

template <bool kVector>
__device__ __forceinline__ void fetch_dots(const Params& p, const DotPlace& at, int d0, DotStage& stage) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  constexpr int kEach = kVector ? 4 : 1, kLanes = DotTile::kDepth / kEach, kRows = DotTile::kThreads / kLanes;
  const int lane = static_cast<int>(threadIdx.x) % kLanes * kEach, row0 = static_cast<int>(threadIdx.x) / kLanes;
  const float* sources[DotTile::kOperands] = {p.d_dva, p.d_reading, p.delta_v};
  if (d0 + lane < d)
#pragma unroll
    for (int q = 0; q < DotTile::kOperands; ++q) {
      const int first = (q < 2 ? at.t0 : at.j0) + row0;
      const float* from = sources[q] + (at.chunk * c + first) * d + d0 + lane;
      float* to = stage.rows + (q * DotTile::kSide + row0) * DotTile::kStride + lane;
#pragma unroll
      for (int n = 0; n < DotTile::kSide / kRows; ++n) {
        if (first + n * kRows < c) device::copy_async<4 * kEach>(to + n * kRows * DotTile::kStride, from);
        from += std::int64_t{kRows} * d;
      }
    }
  device::commit_copies();
}

/// Folds the columns of a stage. Without vectors the last ones may not fill a group of 4. kDiagonal: leaves out what
/// lies above the diagonal.
template <bool kVector, bool kDiagonal>
__device__ __forceinline__ void fold_dots(const DotStage& stage, int depth, Dots& acc) {
  const float* earlier = stage.rows + (2 * DotTile::kSide + DotTile::x()) * DotTile::kStride;
  const float* later = stage.rows + DotTile::y() * DotTile::kStride;
#pragma unroll 1
  for (int k = 0; k < depth; k += 4) {
    float y[DotTile::kEach][4];
#pragma unroll
    for (int s = 0; s < DotTile::kEach; ++s)
      device::unpack(*reinterpret_cast<const float4*>(earlier + s * DotTile::kAcross * DotTile::kStride + k), y[s]);
#pragma unroll
    for (int q = 0; q < 2; ++q)
#pragma unroll
      for (int r = 0; r < DotTile::kEach; ++r) {
        float x[4];
        const float* row = later + (q * DotTile::kSide + r * DotTile::kAcross) * DotTile::kStride;
        device::unpack(*reinterpret_cast<const float4*>(row + k), x);
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          if (!kVector && k + u >= depth) break;
#pragma unroll
          for (int s = 0; s < DotTile::kEach; ++s)
            if (!kDiagonal || s <= r) acc[q][r][s] = fma_rn(x[u], y[s][u], acc[q][r][s]);
        }
      }
  }
}

/// Stores dm and dqk of the tile.
__device__ __forceinline__ void store_dots(const Params& p, const DotPlace& at, const Dots& acc) {
  const int c = p.dims.chunk;
  float* dm = p.dm + at.chunk * c * c;
  float* dqk = p.dqk + at.chunk * c * c;
#pragma unroll
  for (int r = 0; r < DotTile::kEach; ++r) {
    const int t = at.t0 + DotTile::y() + r * DotTile::kAcross;
#pragma unroll
    for (int s = 0; s < DotTile::kEach; ++s) {
      const int j = at.j0 + DotTile::x() + s * DotTile::kAcross;
      if (t >= c || j > t) continue;
      dm[t * c + j] = j < t ? device::negated(acc[0][r][s]) : 0.0f;
      dqk[t * c + j] = acc[1][r][s];
    }
  }
}

template <bool kVector>
__device__ __forceinline__ void make_dots(const Params& p, const DotPlace& at, DotStage* stages) {
  const int d = p.dims.head_dim;
  Dots acc = {};
  fetch_dots<kVector>(p, at, 0, stages[0]);
  int stage = 0;
#pragma unroll 1
  for (int d0 = 0; d0 < d; d0 += DotTile::kDepth, stage ^= 1) {
    device::wait_copies_but<0>();
    __syncthreads();  // the stage is there, and everyone has left the other one
    fetch_dots<kVector>(p, at, d0 + DotTile::kDepth, stages[stage ^ 1]);
    const int depth = min(DotTile::kDepth, d - d0);
    if (at.t0 == at.j0)
      fold_dots<kVector, true>(stages[stage], depth, acc);
    else
      fold_dots<kVector, false>(stages[stage], depth, acc);
  }
  store_dots(p, at, acc);
}

/// Of a warp at a time: their loads are on their way together (18 us at default on an H200, 24 with one row).
inline constexpr int kTokenRows = 4;

/// d_v, and the first half of d_beta: lane l folds i = l, l+32, ..; lanes are added far first.
__device__ __forceinline__ void token_rows(const Params& p, std::int64_t first) {
  constexpr int kBatch = 2;  // of 32 columns
  const int d = p.dims.head_dim, lane = device::lane_id();
  const std::int64_t rows = p.dims.chunks() * p.dims.chunk;
  float dot[kTokenRows] = {}, beta[kTokenRows];
  std::int64_t at[kTokenRows];
#pragma unroll
  for (int r = 0; r < kTokenRows; ++r) {
    const std::int64_t row = first + r < rows ? first + r : rows - 1;  // the last one again: the same values
    beta[r] = p.beta[row];
    at[r] = row * d;
  }
#pragma unroll 1
  for (int i0 = lane; i0 < d; i0 += 32 * kBatch) {
    float gradient[kBatch][kTokenRows], v[kBatch][kTokenRows], retrieved[kBatch][kTokenRows];
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
#pragma unroll
      for (int r = 0; r < kTokenRows; ++r)
        if (const std::int64_t i = at[r] + i0 + 32 * b; i0 + 32 * b < d)
          gradient[b][r] = p.d_dva[i], v[b][r] = p.v[i], retrieved[b][r] = p.retrieved[i];
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
#pragma unroll
      for (int r = 0; r < kTokenRows; ++r)
        if (i0 + 32 * b < d) {
          p.d_v[at[r] + i0 + 32 * b] = beta[r] * gradient[b][r];
          dot[r] = fma_rn(gradient[b][r], v[b][r] - retrieved[b][r], dot[r]);
        }
  }
  const float sum = device::transposed_sum<kTokenRows, device::Tree::far_first>(dot, lane);
  const std::int64_t row = first + device::summed_value<kTokenRows, device::Tree::far_first>(lane);
  if (row < rows) p.d_beta[row] = sum;
}

/// grid: the lower tiles of a chunk, the last rows first, chunk after chunk.
template <bool kVector>
__global__ void __launch_bounds__(DotTile::kThreads, 4) dots_kernel(const __grid_constant__ Params p, int lower_tiles) {
  device::wait_for_previous_grid();
  const auto per_chunk = static_cast<unsigned>(lower_tiles);
  int row, column;
  lower_tile(static_cast<int>(per_chunk - 1 - blockIdx.x % per_chunk), row, column);
  make_dots<kVector>(p, {blockIdx.x / per_chunk, row * DotTile::kSide, column * DotTile::kSide},
                     reinterpret_cast<DotStage*>(device::dynamic_shared()));
}

inline constexpr int kTokenThreads = 128, kTokensOfCta = kTokenThreads / 32 * kTokenRows;

template <int kUnused = 0>
__global__ void __launch_bounds__(kTokenThreads) tokens_kernel(const __grid_constant__ Params p) {
  device::wait_for_previous_grid();
  const std::int64_t first = std::int64_t{blockIdx.x} * kTokensOfCta + device::warp_id() * kTokenRows;
  if (first < p.dims.chunks() * p.dims.chunk) token_rows(p, first);
}

}  // namespace sdm::parameter_gradients
