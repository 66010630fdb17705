#pragma once
// Products of a lower triangular [C, C] matrix (or its transpose) with [C, columns] rows, fp32, for combine, mix and
// their gradients. Every output is one fold over ascending k of exactly the terms inside the triangle (spec 2.6): a
// thread keeps its outputs in registers while tiles of k pass through shared memory. Terms outside the triangle are
// skipped, not multiplied by zero: a zero term turns -0 into +0, and 0*Inf into NaN.
#include "kernels/common/tile_loads.cuh"

namespace sdm::device {

__device__ __forceinline__ void unpack(const float4& v, float (&out)[4]) {
  out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
}

/// Factors of 4 values of k for the thread's rows kFrom .. kTo - 1.
template <typename Tile, Triangle kTriangle, int kFrom, int kTo>
__device__ __forceinline__ void read_factors(const float* tile, int stride, int k, float (&out)[Tile::kThreadRows][4]) {
  if constexpr (kTriangle == Triangle::lower) {
#pragma unroll
    for (int r = kFrom; r < kTo; ++r)
      unpack(*reinterpret_cast<const float4*>(tile + Tile::template row<kTriangle>(r) * stride + k), out[r]);
  } else {
    constexpr int kPack = Tile::kPack;
    struct alignas(4 * kPack) Pack {
      float v[kPack];
    };
#pragma unroll
    for (int u = 0; u < 4; ++u)
#pragma unroll
      for (int r = kFrom; r < kTo; r += kPack) {
        const Pack pack = *reinterpret_cast<const Pack*>(tile + (k + u) * stride + Tile::template row<kTriangle>(r));
#pragma unroll
        for (int s = 0; s < kPack; ++s) out[r + s][u] = pack.v[s];
      }
  }
}

/// Where a thread's outputs and the current tile lie.
struct TilePlace {
  int chunk, i0, d0, k0;
};

/// Which of the thread's rows a tile of k concerns: from .. to - 1, of which mask_from .. mask_to - 1 have terms
/// outside the triangle. Multiples of a run.
struct RowRange {
  int from, to, mask_from, mask_to;
};
template <typename Tile>
inline constexpr RowRange kAllInside{0, Tile::kThreadRows, 0, 0};
template <typename Tile>
inline constexpr RowRange kAllMasked{0, Tile::kThreadRows, 0, Tile::kThreadRows};
/// Of the kPart-th tile of k of a diagonal tile: runs of rows wholly before (lower) or after (transposed) it drop out.
template <typename Tile, Triangle kTriangle, int kPart>
constexpr RowRange diagonal_rows() {
  constexpr int kOf = Tile::template kRun<kTriangle>, kRunRows = kOf * Tile::kThreadsY;
  constexpr int kBegin = kPart * Tile::kDepth, kEnd = kBegin + Tile::kDepth;
  constexpr int kRuns = (Tile::kThreadRows + kOf - 1) / kOf;
  if constexpr (kTriangle == Triangle::lower) {
    constexpr int kFirst = kBegin / kRunRows, kInside = (kEnd - 1 + kRunRows - 1) / kRunRows;
    return {kFirst * kOf, kRuns * kOf, kFirst * kOf, (kInside < kRuns ? kInside : kRuns) * kOf};
  } else {
    constexpr int kInside = (kBegin + 1) / kRunRows, kLast = (kEnd + kRunRows - 1) / kRunRows;
    return {0, (kLast < kRuns ? kLast : kRuns) * kOf, kInside * kOf, (kLast < kRuns ? kLast : kRuns) * kOf};
  }
}

/// Folds the terms k0 .. k0+depth-1 into the thread's outputs. kColumnBound: the rows' matrix is lower triangular too,
/// so that terms start at k = column (looked at only where all rows are masked).
template <typename Tile, Triangle kTriangle, int kProducts, RowRange kRange, bool kColumnBound, typename Stage>
__device__ __forceinline__ void fold_tile(const Stage& stage, const TilePlace& place, int depth,
                                          float (&acc)[kProducts][Tile::kThreadRows][4]) {
  // Few warps run the latency tile: they need loads of several groups in flight. The wide tile has warps enough.
  constexpr int kUnroll = Tile::kDepth > 16 ? 4 : 1;
  const int column = Tile::x() * 4;
#pragma unroll kUnroll
  for (int k = 0; k < depth; k += 4) {
    float x[4][4];
#pragma unroll
    for (int u = 0; u < 4; ++u)
      unpack(*reinterpret_cast<const float4*>(&stage.row[(k + u) * Stage::kRowStride + column]), x[u]);
    const bool begun = !kColumnBound || place.k0 + k >= place.d0 + column;
    const bool past = !kColumnBound || place.k0 + k > place.d0 + column;
#pragma unroll
    for (int q = 0; q < kProducts; ++q) {
      float m[Tile::kThreadRows][4];
      read_factors<Tile, kTriangle, kRange.from, kRange.to>(stage.factor[q], Stage::kFactorStride, k, m);
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        const int at = place.k0 + k + u;
#pragma unroll
        for (int r = kRange.from; r < kRange.to; ++r) {
          const int i = place.i0 + Tile::template row<kTriangle>(r);
          const bool masked = r >= kRange.mask_from && r < kRange.mask_to;
          const bool inside = !masked || (kTriangle == Triangle::lower ? at <= i : at >= i && at < place.chunk);
#pragma unroll
          for (int s = 0; s < 4; ++s)
            if (inside && (u >= s ? begun : past)) acc[q][r][s] = fma_rn(m[r][u], x[u][s], acc[q][r][s]);
        }
      }
    }
  }
}

/// The same, with the rows that the tile at place.k0 concerns.
template <typename Tile, Triangle kTriangle, int kProducts, bool kColumnBound, typename Stage>
__device__ __forceinline__ void fold_triangle(const Stage& stage, const TilePlace& place, int depth,
                                              float (&acc)[kProducts][Tile::kThreadRows][4]) {
  constexpr int kParts = Tile::kRows / Tile::kDepth;  // of a diagonal tile
  const auto fold = [&]<RowRange kRange>() {
    fold_tile<Tile, kTriangle, kProducts, kRange, kColumnBound>(stage, place, depth, acc);
  };
  if constexpr (kParts == 4) {  // sizes are multiples of 4: no term past the chunk
    switch ((place.k0 - place.i0) / Tile::kDepth) {
      case 0: return fold.template operator()<diagonal_rows<Tile, kTriangle, 0>()>();
      case 1: return fold.template operator()<diagonal_rows<Tile, kTriangle, 1>()>();
      case 2: return fold.template operator()<diagonal_rows<Tile, kTriangle, 2>()>();
      case 3: return fold.template operator()<diagonal_rows<Tile, kTriangle, 3>()>();
      default: return fold.template operator()<kAllInside<Tile>>();
    }
  } else {
    const bool whole =
        kTriangle == Triangle::lower
            ? place.k0 + Tile::kDepth - 1 <= place.i0 && (!kColumnBound || place.k0 >= place.d0 + Tile::kColumns - 1)
            : place.k0 >= place.i0 + Tile::kRows - 1 && place.k0 + Tile::kDepth <= place.chunk;
    if (whole)
      fold.template operator()<kAllInside<Tile>>();
    else
      fold.template operator()<kAllMasked<Tile>>();
  }
}

/// The whole fold of one output tile. `ready()` is called once, before anything of `row` is read and after the first
/// factors are on their way; start(acc) then sets the accumulators.
template <typename Tile, Triangle kTriangle, int kProducts, bool kColumnBound = false, typename Factor, typename Row,
          typename Ready, typename Start>
__device__ __forceinline__ void triangular_tile(TileMemory<Tile, kTriangle, kProducts>& memory,
                                                const Factor (&factor)[kProducts], const Row& row, TilePlace place,
                                                Ready&& ready, Start&& start,
                                                float (&acc)[kProducts][Tile::kThreadRows][4]) {
  const int k_begin =
      kTriangle == Triangle::transposed ? place.i0 : (kColumnBound ? place.d0 / Tile::kDepth * Tile::kDepth : 0);
  const int k_end = kTriangle == Triangle::transposed ? place.chunk : min(place.i0 + Tile::kRows, place.chunk);
  TileLoads<Tile, kTriangle, kProducts, Row> loads;
  loads.load_factors(factor, place.i0, k_begin);
  ready();
  loads.load_rows(row, k_begin, place.d0);
  start(acc);
  int buffer = 0;
  for (int k0 = k_begin; k0 < k_end; k0 += Tile::kDepth, buffer ^= 1) {
    auto& stage = memory.stage[buffer];
    loads.store(stage, row, k0, place.d0);
    __syncthreads();  // also: everyone has left the other stage, which the next round fills
    if (k0 + Tile::kDepth < k_end) {
      loads.load_factors(factor, place.i0, k0 + Tile::kDepth);
      loads.load_rows(row, k0 + Tile::kDepth, place.d0);
    }
    place.k0 = k0;
    fold_triangle<Tile, kTriangle, kProducts, kColumnBound>(stage, place, min(Tile::kDepth, k_end - k0), acc);
  }
}

/// Whether a row of a lower triangular [C, C] matrix ends before this column's sector of 32 bytes: nobody stores there
/// (Tensor::Role::lower).
__device__ __forceinline__ bool above_diagonal(int row, int column) { return (column & ~7) > row; }

template <int kProducts, int kThreadRows>
__device__ __forceinline__ void clear(float (&acc)[kProducts][kThreadRows][4]) {
#pragma unroll
  for (int q = 0; q < kProducts; ++q)
#pragma unroll
    for (int r = 0; r < kThreadRows; ++r)
#pragma unroll
      for (int s = 0; s < 4; ++s) acc[q][r][s] = 0.0f;
}

/// Calls body(r, row, column) for the thread's output vectors inside the chunk; column is the first of 4.
template <typename Tile, Triangle kTriangle, typename Body>
__device__ __forceinline__ void for_outputs(const TilePlace& place, Body&& body) {
#pragma unroll
  for (int r = 0; r < Tile::kThreadRows; ++r) {
    const int i = place.i0 + Tile::template row<kTriangle>(r);
    if (i < place.chunk) body(r, i, place.d0 + Tile::x() * 4);
  }
}

}  // namespace sdm::device
