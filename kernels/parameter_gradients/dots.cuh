#pragma once
// dm and dqk: dots of token rows, [C, D] x [C, D]^T per chunk, each output one fold over ascending d; and the gradients
// by token. Device only.
#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/common/rows.cuh"
#include "kernels/common/triangular.cuh"
#include "kernels/parameter_gradients/contract.h"
#include "kernels/parameter_gradients/parameter_gradients.h"

namespace sdm::parameter_gradients {

/// 64 x 64 dots a CTA, 8 x 4 a thread; 16 columns of d at a time.
using DotTile = device::WideTile;
inline constexpr int kDotStride = DotTile::kDepth + 4;  // puts the vectors of neighbouring rows into different banks

struct alignas(16) DotStage {
  float later[DotTile::kRows * kDotStride];       // rows t
  float earlier[DotTile::kColumns * kDotStride];  // rows j of delta_v
};

/// 4 values of d of the thread's rows, which lie `apart` rows from each other.
template <int kCount>
__device__ __forceinline__ void read_rows(const float* tile, int first, int apart, int k, float (&out)[kCount][4]) {
#pragma unroll
  for (int r = 0; r < kCount; ++r)
    device::unpack(*reinterpret_cast<const float4*>(tile + (first + r * apart) * kDotStride + k), out[r]);
}

/// Whether a tile on the diagonal has a dot with j <= t among the rows r and columns s of all threads.
constexpr bool on_or_below(int r, int s) {
  return s * DotTile::kThreadsX <= r * DotTile::kThreadsY + DotTile::kThreadsY - 1;
}

/// Folds d = d0 .. d0+depth-1. Without vectors the last columns may not fill a group of 4. kDiagonal: leaves out what
/// lies above the diagonal, 12 of a thread's 32 dots.
template <bool kVector, bool kDiagonal>
__device__ __forceinline__ void fold_dots(const DotStage& stage, int depth, float (&acc)[DotTile::kThreadRows][4]) {
#pragma unroll 1
  for (int k = 0; k < depth; k += 4) {
    float x[DotTile::kThreadRows][4], y[4][4];
    read_rows(stage.later, DotTile::y(), DotTile::kThreadsY, k, x);
    read_rows(stage.earlier, DotTile::x(), DotTile::kThreadsX, k, y);
#pragma unroll
    for (int u = 0; u < 4; ++u) {
      if (!kVector && k + u >= depth) break;
#pragma unroll
      for (int r = 0; r < DotTile::kThreadRows; ++r)
#pragma unroll
        for (int s = 0; s < 4; ++s)
          if (!kDiagonal || on_or_below(r, s)) acc[r][s] = fma_rn(x[r][u], y[s][u], acc[r][s]);
    }
  }
}

/// A thread's share of the next columns of both operands.
struct DotLoads {
  static constexpr int kVectors = DotTile::kRows * DotTile::kDepth / 4 / DotTile::kThreads;
  static constexpr int kAcross = DotTile::kDepth / 4;
  float4 later[kVectors], earlier[kVectors];

  template <typename Source>
  __device__ __forceinline__ void load(const Source& t_rows, const Source& j_rows, int t0, int j0, int d0) {
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const int v = static_cast<int>(threadIdx.x) + n * DotTile::kThreads;
      later[n] = t_rows.load(t0 + v / kAcross, d0 + v % kAcross * 4);
      earlier[n] = j_rows.load(j0 + v / kAcross, d0 + v % kAcross * 4);
    }
  }
  __device__ __forceinline__ void store(DotStage& stage) const {
#pragma unroll
    for (int n = 0; n < kVectors; ++n) {
      const int v = static_cast<int>(threadIdx.x) + n * DotTile::kThreads;
      const int at = v / kAcross * kDotStride + v % kAcross * 4;
      *reinterpret_cast<float4*>(stage.later + at) = later[n];
      *reinterpret_cast<float4*>(stage.earlier + at) = earlier[n];
    }
  }
};
static_assert(DotTile::kRows == DotTile::kColumns);

/// grid.x: (chunk, dm or dqk, tile of t, tile of j), j fastest. Tiles above the diagonal only store zeros.
template <bool kVector>
__global__ void __launch_bounds__(DotTile::kThreads, 3) dots_kernel(const __grid_constant__ Params p, int tiles) {
  __shared__ DotStage stage[2];
  device::wait_for_previous_grid();
  const int c = p.dims.chunk, d = p.dims.head_dim;
  unsigned item = blockIdx.x;
  const int j0 = static_cast<int>(item % static_cast<unsigned>(tiles)) * DotTile::kColumns;
  item /= static_cast<unsigned>(tiles);
  const int t0 = static_cast<int>(item % static_cast<unsigned>(tiles)) * DotTile::kRows;
  item /= static_cast<unsigned>(tiles);
  const bool is_dm = item % 2 == 0;
  const std::int64_t chunk = item / 2, at = chunk * c * d;
  const device::Rows<kVector> later{(is_dm ? p.d_dva : p.d_reading) + at, c, d}, earlier{p.delta_v + at, c, d};
  float acc[DotTile::kThreadRows][4] = {};
  if (j0 < t0 + DotTile::kRows) {
    DotLoads loads;
    loads.load(later, earlier, t0, j0, 0);
    int buffer = 0;
    for (int d0 = 0; d0 < d; d0 += DotTile::kDepth, buffer ^= 1) {
      loads.store(stage[buffer]);
      __syncthreads();  // also: everyone has left the other stage
      if (d0 + DotTile::kDepth < d) loads.load(later, earlier, t0, j0, d0 + DotTile::kDepth);
      const int depth = min(DotTile::kDepth, d - d0);
      if (t0 == j0)
        fold_dots<kVector, true>(stage[buffer], depth, acc);
      else
        fold_dots<kVector, false>(stage[buffer], depth, acc);
    }
  }
  float* out = (is_dm ? p.dm : p.dqk) + chunk * c * c;
#pragma unroll
  for (int r = 0; r < DotTile::kThreadRows; ++r) {
    const int t = t0 + DotTile::y() + r * DotTile::kThreadsY;
#pragma unroll
    for (int s = 0; s < 4; ++s) {
      const int j = j0 + DotTile::x() + s * DotTile::kThreadsX;
      if (t >= c || j >= c) continue;
      const bool inside = is_dm ? j < t : j <= t;
      out[t * c + j] = inside ? (is_dm ? device::negated(acc[r][s]) : acc[r][s]) : 0.0f;
    }
  }
}

inline constexpr int kTokenThreads = 256;

/// d_v and d_beta, a warp per token: lane l folds i = l, l+32, ..; lanes are added far first.
template <int kUnused = 0>
__global__ void __launch_bounds__(kTokenThreads) tokens_kernel(const __grid_constant__ Params p) {
  device::wait_for_previous_grid();
  const int c = p.dims.chunk, d = p.dims.head_dim, lane = device::lane_id();
  const std::int64_t row = std::int64_t{blockIdx.x} * (kTokenThreads / 32) + device::warp_id();
  if (row >= p.dims.chunks() * c) return;
  const float beta = p.beta[row];
  const float* v = p.v + row * d;
  const float* retrieved = p.retrieved + row * d;
  const float* d_dva = p.d_dva + row * d;
  float* d_v = p.d_v + row * d;
  float dot = 0.0f;
#pragma unroll 4
  for (int i = lane; i < d; i += 32) {
    const float gradient = d_dva[i];
    d_v[i] = beta * gradient;
    dot = fma_rn(gradient, v[i] - retrieved[i], dot);
  }
  float pairs = 0.0f;
  for (int j = lane; j < static_cast<int>(row % c); j += 32) pairs = fma_rn(p.a[row * c + j], p.dm[row * c + j], pairs);
  dot = device::tree_sum_far_first(dot);
  pairs = device::tree_sum_far_first(pairs);
  if (lane == 0) p.d_beta[row] = dot + pairs;
}

}  // namespace sdm::parameter_gradients
