#pragma once
// The triangular products of triangular.cuh on tensor cores: tf32 three times (x = high + low, the product of the two
// low parts dropped), fp32 accumulators, mma.sync m16n8k8 of sm_80 and newer. The order inside an mma is the
// hardware's, so the bits repeat from run to run but are not the replay's. The zeros outside the triangle are
// multiplied, not skipped: an Inf or NaN reaches every output of its column tile.
#include "kernels/common/triangular.cuh"

namespace sdm::device {

/// Bits of x rounded to tf32 (10 mantissa bits).
__device__ __forceinline__ std::uint32_t to_tf32(float x) {
  std::uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

/// d += a*b, a 16x8 and b 8x8 in tf32. With g = lane/4, t = lane%4, a thread holds a[g][t], a[g+8][t], a[g][t+4],
/// a[g+8][t+4]; b[t][g], b[t+4][g]; d[g][2t], d[g][2t+1], d[g+8][2t], d[g+8][2t+1].
__device__ __forceinline__ void mma_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/// N values split into high and low tf32 parts.
template <int kCount>
struct SplitTf32 {
  std::uint32_t high[kCount], low[kCount];
  __device__ __forceinline__ void set(int i, float x) {
    high[i] = to_tf32(x);
    low[i] = to_tf32(x - float_of(high[i]));
  }
};

/// Tiles in shared memory, strides of 8 modulo 32 along k and of 4 modulo 16 across: fragment loads meet no bank twice.
template <typename Tile, Triangle kTriangle>
struct TensorMemory {
  struct alignas(16) Stage {
    static constexpr int kFactorStride = kTriangle == Triangle::lower ? Tile::kDepth + 4 : Tile::kRows + 8;
    static constexpr int kRowStride = Tile::kColumns + 8;
    float factor[1][(kTriangle == Triangle::lower ? Tile::kRows : Tile::kDepth) * kFactorStride];
    float row[Tile::kDepth * kRowStride];
  };
  Stage stage[2];
};

/// Four warps, 2 x 2, share an output tile; a warp holds kM x kN fragments of 16 x 8.
template <typename Tile>
struct TensorWarp {
  static_assert(Tile::kThreads == 128);
  static constexpr int kM = Tile::kRows / 32, kN = Tile::kColumns / 16;
  float acc[kM][kN][4];

  __device__ static __forceinline__ int row() { return warp_id() / 2 * (Tile::kRows / 2); }
  __device__ static __forceinline__ int column() { return warp_id() % 2 * (Tile::kColumns / 2); }

  /// Calls body(row, column, first, second) for every pair of adjacent outputs, place inside the tile.
  template <typename Body>
  __device__ __forceinline__ void for_pairs(Body&& body) {
    const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
    for (int m = 0; m < kM; ++m)
#pragma unroll
      for (int n = 0; n < kN; ++n)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          body(row() + 16 * m + g + 8 * half, column() + 8 * n + 2 * t, acc[m][n][2 * half], acc[m][n][2 * half + 1]);
  }

  /// Adds the products of 8 values of k. Small terms first.
  template <Triangle kTriangle, typename Stage>
  __device__ __forceinline__ void multiply(const Stage& stage, int k) {
    const int g = lane_id() / 4, t = lane_id() % 4;
    SplitTf32<2> b[kN];
#pragma unroll
    for (int n = 0; n < kN; ++n)
#pragma unroll
      for (int i = 0; i < 2; ++i) b[n].set(i, stage.row[(k + t + 4 * i) * Stage::kRowStride + column() + 8 * n + g]);
#pragma unroll
    for (int m = 0; m < kM; ++m) {
      SplitTf32<4> a;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int r = row() + 16 * m + g + 8 * (i % 2), at = k + t + 4 * (i / 2);
        a.set(i, stage.factor[0][kTriangle == Triangle::lower ? r * Stage::kFactorStride + at
                                                              : at * Stage::kFactorStride + r]);
      }
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        mma_tf32(acc[m][n], a.low, b[n].high);
        mma_tf32(acc[m][n], a.high, b[n].low);
        mma_tf32(acc[m][n], a.high, b[n].high);
      }
    }
  }
};

/// The whole product of one output tile on top of what start() puts into warp.acc; `ready` as in triangular_tile.
template <typename Tile, Triangle kTriangle, typename Source, typename Ready, typename Start>
__device__ __forceinline__ void tensor_tile(TensorMemory<Tile, kTriangle>& memory, const Source& factor,
                                            const Source& row, const TilePlace& place, Ready&& ready, Start&& start,
                                            TensorWarp<Tile>& warp) {
  const int k_begin = kTriangle == Triangle::lower ? 0 : place.i0;
  const int k_end = kTriangle == Triangle::lower ? min(place.i0 + Tile::kRows, place.chunk) : place.chunk;
  const Source factors[1] = {factor};
  TileLoads<Tile, kTriangle, 1, Source> loads;
  loads.load_factors(factors, place.i0, k_begin);
  ready();
  loads.load_rows(row, k_begin, place.d0);
  start();
  int buffer = 0;
  for (int k0 = k_begin; k0 < k_end; k0 += Tile::kDepth, buffer ^= 1) {
    auto& stage = memory.stage[buffer];
    loads.store(stage, row, k0, place.d0);
    __syncthreads();  // also: everyone has left the other stage, which the next round fills
    if (k0 + Tile::kDepth < k_end) {
      loads.load_factors(factors, place.i0, k0 + Tile::kDepth);
      loads.load_rows(row, k0 + Tile::kDepth, place.d0);
    }
#pragma unroll 2
    for (int k = 0; k < min(Tile::kDepth, k_end - k0); k += 8) warp.template multiply<kTriangle>(stage, k);
  }
}

/// Two adjacent values of a row, zeros outside; kVector: both or none are inside, and 8-byte aligned.
template <bool kVector>
__device__ __forceinline__ float2 load_pair(const Rows<kVector>& rows, int row, int column) {
  float2 v = make_float2(0.0f, 0.0f);
  if (row >= rows.rows || column >= rows.columns) return v;
  const float* at = rows.data + static_cast<std::int64_t>(row) * rows.columns + column;
  if constexpr (kVector) return *reinterpret_cast<const float2*>(at);
  v.x = at[0];
  if (column + 1 < rows.columns) v.y = at[1];
  return v;
}
template <bool kVector>
__device__ __forceinline__ void store_pair(float* out, int rows, int columns, int row, int column, float2 v) {
  if (row >= rows || column >= columns) return;
  float* at = out + static_cast<std::int64_t>(row) * columns + column;
  if constexpr (kVector) {
    *reinterpret_cast<float2*>(at) = v;
  } else {
    at[0] = v.x;
    if (column + 1 < columns) at[1] = v.y;
  }
}

}  // namespace sdm::device
