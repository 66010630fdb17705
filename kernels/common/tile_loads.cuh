#pragma once
// Output tiles of triangular products: their shapes, and the way of their operands from global through registers to
// shared memory. Device code only.
#include <cstdint>

#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"

namespace sdm::device {

/// lower: out[i] folds m[i][k] * x[k] over k = 0..i; transposed: m[k][i] * x[k] over k = i..C-1.
enum class Triangle { lower, transposed };

/// An output tile of kRows x kColumns, kThreadRows x 4 outputs a thread, kDepth values of k in shared memory at a time.
template <int kRows_, int kColumns_, int kDepth_, int kThreadRows_>
struct TileShape {
  static constexpr int kRows = kRows_, kColumns = kColumns_, kDepth = kDepth_, kThreadRows = kThreadRows_;
  static constexpr int kThreadColumns = 4;
  static constexpr int kThreadsX = kColumns / kThreadColumns, kThreadsY = kRows / kThreadRows;
  static constexpr int kThreads = kThreadsX * kThreadsY;
  static constexpr int kFactorVectors = kRows * kDepth / 4 / kThreads;
  static constexpr int kRowVectors = kDepth * kColumns / 4 / kThreads;
  static_assert(kRows * kDepth % (4 * kThreads) == 0 && kDepth * kColumns % (4 * kThreads) == 0);
  static_assert(kThreadsX % 8 == 0 && kThreadsY % 4 == 0, "a warp is 4 rows of 8 threads");

  /// A warp covers 4 x 8 threads: 4 distinct factor and 8 distinct row vectors a load, one wavefront each.
  __device__ static __forceinline__ int x() { return warp_id() % (kThreadsX / 8) * 8 + lane_id() % 8; }
  __device__ static __forceinline__ int y() { return warp_id() / (kThreadsX / 8) * 4 + lane_id() / 8; }

  /// Rows r of all threads together are a run of rows of the tile, so that a diagonal tile leaves whole runs out.
  /// Lower: the factor tile lies as [row][k]; runs of single rows, which keep the four vectors of a warp in different
  /// banks. Transposed: it lies as [k][row], and kPack adjacent rows make a vector.
  static constexpr int kPack = kThreadRows > 4 ? 4 : kThreadRows % 2 == 0 ? 2 : 1;
  template <Triangle kTriangle>
  static constexpr int kRun = kTriangle == Triangle::lower ? 1 : kPack;  ///< of the thread's rows
  template <Triangle kTriangle>
  __device__ static __forceinline__ int row(int r) {
    constexpr int kOf = kRun<kTriangle>;
    return r / kOf * (kOf * kThreadsY) + y() * kOf + r % kOf;
  }
};
/// Throughput: 32 outputs a thread, 128 multiply-adds for 12 shared loads.
using WideTile = TileShape<64, 64, 16, 8>;
/// The same tile by twice the threads, 16 outputs of a product each. Two products at once: as many multiply-adds a
/// shared load, and the rows are read once. One product: more warps, for launches of one wave whose last CTAs run
/// alone.
using PairTile = TileShape<64, 64, 16, 4>;
/// Latency: 8 outputs a thread, so that a small step spreads over the whole GPU; a chunk of 64 is one tile deep.
using SmallTile = TileShape<32, 32, 64, 2>;

/// Rows of a row-major matrix, zeros outside. kVector: `columns` is a multiple of 4 and the data 16-byte aligned. A
/// source of rows has load(), which only loads, and value(), which makes the values of it: it is called a whole tile
/// later, so that arithmetic on what is loaded does not wait for it.
template <bool kVector>
struct Rows {
  using Raw = float4;
  const float* data;
  int rows, columns;
  __device__ __forceinline__ float4 load(int row, int column) const {
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (row >= rows) return v;
    const float* at = data + static_cast<std::int64_t>(row) * columns + column;
    if constexpr (kVector) {
      if (column < columns) v = *reinterpret_cast<const float4*>(at);
    } else {
      if (column < columns) v.x = at[0];
      if (column + 1 < columns) v.y = at[1];
      if (column + 2 < columns) v.z = at[2];
      if (column + 3 < columns) v.w = at[3];
    }
    return v;
  }
  __device__ __forceinline__ float4 value(const float4& raw, int, int) const { return raw; }
};

/// Rows scaled by scale[row], each product rounded.
template <bool kVector>
struct ScaledRows {
  struct Raw {
    float4 vector;
    float factor;
  };
  Rows<kVector> source;
  const float* scale;
  __device__ __forceinline__ Raw load(int row, int column) const {
    return {source.load(row, column), row < source.rows ? scale[row] : 0.0f};
  }
  __device__ __forceinline__ float4 value(const Raw& raw, int, int) const {
    const float f = raw.factor;
    return make_float4(f * raw.vector.x, f * raw.vector.y, f * raw.vector.z, f * raw.vector.w);
  }
};

template <bool kVector>
__device__ __forceinline__ void store_row(float* out, int column, int columns, const float (&v)[4]) {
  if constexpr (kVector) {
    if (column < columns) *reinterpret_cast<float4*>(out + column) = make_float4(v[0], v[1], v[2], v[3]);
  } else {
#pragma unroll
    for (int s = 0; s < 4; ++s)
      if (column + s < columns) out[column + s] = v[s];
  }
}

/// Two stages of tiles: one is filled while the other is read. The factor tile is [row][k] where lower, else [k][row].
template <typename Tile, Triangle kTriangle, int kProducts>
struct TileMemory {
  struct alignas(16) Stage {
    // The 4 floats of padding put the vectors of neighbouring rows into different banks.
    static constexpr int kFactorStride = kTriangle == Triangle::lower ? Tile::kDepth + 4 : Tile::kRows;
    static constexpr int kRowStride = Tile::kColumns;
    float factor[kProducts][(kTriangle == Triangle::lower ? Tile::kRows : Tile::kDepth) * kFactorStride];
    float row[Tile::kDepth * kRowStride];
  };
  Stage stage[2];
};

/// A thread's share of the next tiles, on its way from global to shared memory.
template <typename Tile, Triangle kTriangle, int kProducts, typename Row>
struct TileLoads {
  float4 factor[kProducts][Tile::kFactorVectors];
  typename Row::Raw row[Tile::kRowVectors];

  /// Vectors across the factor tile: along k where it is lower, along the rows where it is transposed.
  static constexpr int kAcross = (kTriangle == Triangle::lower ? Tile::kDepth : Tile::kRows) / 4;

  template <typename Factor>
  __device__ __forceinline__ void load_factors(const Factor (&source)[kProducts], int i0, int k0) {
#pragma unroll
    for (int n = 0; n < Tile::kFactorVectors; ++n) {
      const int v = static_cast<int>(threadIdx.x) + n * Tile::kThreads, outer = v / kAcross, inner = v % kAcross * 4;
#pragma unroll
      for (int q = 0; q < kProducts; ++q)
        factor[q][n] = kTriangle == Triangle::lower ? source[q].load(i0 + outer, k0 + inner)
                                                    : source[q].load(k0 + outer, i0 + inner);
    }
  }
  __device__ __forceinline__ void load_rows(const Row& source, int k0, int d0) {
#pragma unroll
    for (int n = 0; n < Tile::kRowVectors; ++n) {
      const int v = static_cast<int>(threadIdx.x) + n * Tile::kThreads;
      row[n] = source.load(k0 + v / Tile::kThreadsX, d0 + v % Tile::kThreadsX * 4);
    }
  }
  template <typename Stage>
  __device__ __forceinline__ void store(Stage& stage, const Row& source, int k0, int d0) const {
#pragma unroll
    for (int n = 0; n < Tile::kFactorVectors; ++n) {
      const int v = static_cast<int>(threadIdx.x) + n * Tile::kThreads;
      const int at = v / kAcross * Stage::kFactorStride + v % kAcross * 4;
#pragma unroll
      for (int q = 0; q < kProducts; ++q) *reinterpret_cast<float4*>(stage.factor[q] + at) = factor[q][n];
    }
#pragma unroll
    for (int n = 0; n < Tile::kRowVectors; ++n) {
      const int v = static_cast<int>(threadIdx.x) + n * Tile::kThreads;
      const int k = v / Tile::kThreadsX, column = v % Tile::kThreadsX * 4;
      *reinterpret_cast<float4*>(stage.row + k * Stage::kRowStride + column) =
          source.value(row[n], k0 + k, d0 + column);
    }
  }
};

}  // namespace sdm::device
