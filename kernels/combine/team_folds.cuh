#pragma once
// Products of a chunk of up to 64 tokens by teams of two warps, for `teams`: how triangles lie in shared memory, and
// the folds. Device code only.
#include "kernels/common/copy_engine.cuh"
#include "kernels/common/launch.h"
#include "numerics/fp.h"

namespace sdm::combine {

/// A team makes 64 columns of a product, 8 x 8 outputs a thread: rows y, y + 8, .., so that the r-th rows of all
/// threads are a run of 8 rows, and k of the p-th run concern the rows from the p-th on.
struct Team {
  static constexpr int kRows = 64, kColumns = 64, kHalf = kColumns / 2, kThreadRows = 8, kRun = kRows / kThreadRows;
  static constexpr int kThreads = 64;
  __device__ static __forceinline__ int index() { return static_cast<int>(threadIdx.x) / kThreads; }
  __device__ static __forceinline__ int thread() { return static_cast<int>(threadIdx.x) % kThreads; }
  __device__ static __forceinline__ int x() { return static_cast<int>(threadIdx.x) % 8; }
  __device__ static __forceinline__ int y() { return thread() / 8; }
  __device__ static __forceinline__ void barrier() {
    asm volatile("bar.sync %0, %1;" ::"r"(index() + 1), "n"(kThreads) : "memory");
  }
};

/// A lower triangle in half the memory: row i is there up to the end of its 16 columns around the diagonal, and the
/// lower half lies upside down (in pieces of 16 rows) beside the upper one.
struct Packed {
  static constexpr int kPiece = 16, kPieces = Team::kRows / kPiece, kWidth = Team::kRows + kPiece;
  static constexpr int kStride = kWidth + 8;  // the four rows that a warp reads in different banks
  float data[Team::kRows / 2 * kStride];
  /// Where a row begins.
  __host__ __device__ static constexpr int at(int row) {
    const int piece = row / kPiece;
    if (piece < kPieces / 2) return row * kStride;
    return ((kPieces - 1 - piece) * kPiece + row % kPiece) * kStride + kWidth - kPiece * (piece + 1);
  }
};

/// Vectors that the compiler does not take apart, whatever of them it uses under a condition.
__device__ __forceinline__ void load_shared(const float* at, float (&v)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(device::shared_address(at)));
}
__device__ __forceinline__ void load_shared(const float* at, float (&v)[2]) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(v[0]), "=f"(v[1]) : "r"(device::shared_address(at)));
}

/// A team's product of a packed triangle and rows, kStride apart. kOfB: the rows are a packed triangle themselves, so
/// that terms begin at k = column.
template <int kStride, bool kOfB>
struct TeamProduct {
  float acc[Team::kThreadRows][2][4];

  /// Two terms: they are on their way while the two before are folded.
  struct Terms {
    float x[2][2][4], m[Team::kThreadRows][2];
  };
  template <int kPart>
  __device__ __forceinline__ static void load(Terms& t, const float* factor, const float* rows) {
#pragma unroll
    for (int u = 0; u < 2; ++u)
#pragma unroll
      for (int h = 0; h < 2; ++h) load_shared(rows + u * kStride + h * Team::kHalf, t.x[u][h]);
#pragma unroll
    for (int r = Team::kThreadRows - 1; r >= kPart; --r) load_shared(factor + Packed::at(r * Team::kRun), t.m[r]);
  }
  /// The terms k and k + 1 of a run, k = kFirst mod 4. kOfB: `over` is the run's k (mod 4 left out) less the first
  /// column of the half in which columns begin: until one has begun, what its sums hold is dropped. Neighbours in a row
  /// share a factor and neighbours in different rows a column: a multiply-add that reads three registers anew seems to
  /// cost an issue slot more.
  template <int kPart, int kFirst>
  __device__ __forceinline__ void fold(const Terms& t, int k, int over) {
    constexpr int kHalves = kOfB && kPart < Team::kHalf / Team::kRun ? 1 : 2;  // the second is past the diagonal
    const int y = Team::y();
#pragma unroll
    for (int u = 0; u < 2; ++u) {
      if constexpr (kOfB) {
#pragma unroll
        for (int r = Team::kThreadRows - 1; r >= kPart; --r)
          if (over <= 0) acc[r][kHalves - 1][kFirst + u] = 0.0f;
      }
#pragma unroll
      for (int r = Team::kThreadRows - 1; r >= kPart; --r)
#pragma unroll
        for (int i = 0; i < 4 * kHalves; ++i) {
          const int j = r % 2 == 0 ? i : 4 * kHalves - 1 - i;
          float& sum = acc[r][j / 4][j % 4];
          if (r > kPart || k + kFirst + u <= y) sum = fma_rn(t.m[r][u], t.x[u][j / 4][j % 4], sum);
        }
    }
  }
  __host__ __device__ static constexpr int row_at(int k) { return kOfB ? Packed::at(k) : k * kStride; }

  /// The runs from the kPart-th on; their first two terms are in `a`.
  template <int kPart>
  __device__ __forceinline__ void runs(Terms& a, const float* factor, const float* rows, int chunk) {
    if constexpr (kPart < Team::kThreadRows) {
      constexpr int kBegin = kPart * Team::kRun, kNext = kPart + 1 < Team::kThreadRows ? kBegin + Team::kRun : kBegin;
      if (kBegin >= chunk) return;
      const float *m = factor + kBegin, *x = rows + row_at(kBegin);
      int over = kBegin % Team::kHalf - 4 * Team::x();
#pragma unroll 1  // instruction fetches: unrolled, the kernel took 60 us at default in place of 38 (an earlier form)
      for (int k = 0; k < Team::kRun; k += 4) {
        Terms b;
        load<kPart>(b, m + 2, x + 2 * kStride);
        fold<kPart, 0>(a, k, over);
        m += 4, x = k + 4 == Team::kRun ? rows + row_at(kNext) : x + 4 * kStride;
        load<kPart>(a, m, x);
        fold<kPart, 2>(b, k, over);
        over += 4;
      }
      runs<kPart + 1>(a, factor, rows, chunk);
    }
  }
  __device__ __forceinline__ void run(const Packed& factor, const float* rows, int chunk) {
#pragma unroll
    for (int r = 0; r < Team::kThreadRows; ++r)
#pragma unroll
      for (int s = 0; s < 8; ++s) acc[r][s / 4][s % 4] = 0.0f;
    const float *m = factor.data + Team::y() * Packed::kStride, *x = rows + 4 * Team::x();
    Terms a;
    load<0>(a, m, x);
    runs<0>(a, m, x, chunk);
  }

  /// body(row, column of the team's, values) for the thread's output vectors.
  template <typename Body>
  __device__ __forceinline__ void for_outputs(int rows, int columns, Body&& body) const {
    int row = Team::y(), column = 4 * Team::x();
    asm volatile("" : "+r"(row), "+r"(column));  // or places of outputs fill the registers from the start
#pragma unroll
    for (int r = 0; r < Team::kThreadRows; ++r, row += Team::kRun)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        if (row < rows && column + h * Team::kHalf < columns)
          body(row, column + h * Team::kHalf, make_float4(acc[r][h][0], acc[r][h][1], acc[r][h][2], acc[r][h][3]));
  }
};

}  // namespace sdm::combine
