#pragma once
// All products of a chunk of 65 to 256 tokens, 64 columns a CTA: base_dv = S (beta v) and then base_out = QK base_dv,
// or B = -S diag(beta) and QB = QK B. The rows of a product lie whole in shared memory, and base_dv takes their place;
// the factor passes through two stages of 16 k. Device code only.
#include "kernels/combine/combine.h"
#include "kernels/common/async_copy.cuh"
#include "kernels/common/triangular.cuh"

namespace sdm::combine {

/// A thread makes 8 x 8 outputs: as many multiply-adds a shared load as 128 registers allow. Its rows lie kThreadsY
/// apart, so that the r-th rows of all threads are a run of kRun rows, and k of the p-th run concern the rows from the
/// p-th on.
template <int kRows_>
struct ChunkTile {
  static constexpr int kRows = kRows_, kColumns = 64, kThreadRows = 8, kHalf = kColumns / 2;
  static constexpr int kThreadsY = kRows / kThreadRows, kThreads = 8 * kThreadsY, kRun = kThreadsY;
  static constexpr int kDepth = 16;  // k of a stage
  static constexpr int kUnit = kRun < kDepth ? kRun : kDepth;
  static constexpr int kFactorStride = kDepth + 4;  // neighbouring rows in different banks
  __device__ static __forceinline__ int x() { return static_cast<int>(threadIdx.x) % 8; }
  __device__ static __forceinline__ int y() { return static_cast<int>(threadIdx.x) / 8; }
  __device__ static __forceinline__ int row(int r) { return r * kThreadsY + y(); }
};

template <typename Tile>
struct ChunkMemory {
  float rows[Tile::kRows * Tile::kColumns];
  float factor[2][Tile::kRows * Tile::kFactorStride];
  float beta[Tile::kRows];
};

/// One CTA's work: columns d0 .. d0 + 63 of the chunk. Terms of the tiles of B begin at k = column (kOfB).
template <typename Tile, bool kOfB>
struct ChunkProducts {
  static constexpr int kVectorsAcross = Tile::kColumns / 4;
  ChunkMemory<Tile>& memory;
  const float *first, *second;  ///< [C, C], the factors of the products in their order
  const float* source;          ///< [C, width]: v, or S
  int chunk, width, d0;
  int stage = 0;  ///< which of the two comes next
  float acc[Tile::kThreadRows][2][4];

  /// Of product 0 (kOfB: the only one), the rows come along.
  __device__ __forceinline__ void fetch(int product, int k0) const {
    constexpr int kAtOnce = Tile::kThreads / 4;  // rows: four vectors each
    const int first_row = k0 + static_cast<int>(threadIdx.x) / 4, k = static_cast<int>(threadIdx.x) % 4 * 4;
    const float* from = (product == 0 ? first : second) + first_row * chunk + k0 + k;
    float* to = memory.factor[stage] + first_row * Tile::kFactorStride + k;
    if (k0 + k < chunk)
#pragma unroll 1
      for (int row = first_row; row < chunk; row += kAtOnce) {
        device::copy_async<16>(to, from);
        from += kAtOnce * chunk, to += kAtOnce * Tile::kFactorStride;
      }
    if (product == 0)
      for_own_rows(k0, [&](int row, int column) {
        device::copy_async<16>(memory.rows + row * Tile::kColumns + column, source + row * width + d0 + column);
      });
    device::commit_copies();
  }
  /// body(row, column) for the vectors of a stage's rows that this thread copies, and then scales.
  template <typename Body>
  __device__ __forceinline__ void for_own_rows(int k0, Body&& body) const {
#pragma unroll
    for (int v = 0; v < Tile::kDepth * kVectorsAcross; v += Tile::kThreads) {
      const int at = v + static_cast<int>(threadIdx.x);
      const int row = k0 + at / kVectorsAcross, column = at % kVectorsAcross * 4;
      if ((Tile::kDepth * kVectorsAcross % Tile::kThreads == 0 || at < Tile::kDepth * kVectorsAcross) && row < chunk &&
          d0 + column < width)
        body(row, column);
    }
  }
  __device__ __forceinline__ void scale(int k0) const {
    for_own_rows(k0, [&](int row, int column) {
      auto* at = reinterpret_cast<float4*>(memory.rows + row * Tile::kColumns + column);
      const float4 v = *at;
      if constexpr (kOfB) {
        const float4 f = *reinterpret_cast<const float4*>(memory.beta + d0 + column);
        const int last = row - d0 - column;  // columns past the diagonal are zero
        *at = make_float4(last >= 0 ? (-v.x) * f.x : 0.0f, last >= 1 ? (-v.y) * f.y : 0.0f,
                          last >= 2 ? (-v.z) * f.z : 0.0f, last >= 3 ? (-v.w) * f.w : 0.0f);
      } else {
        const float f = memory.beta[row];
        *at = make_float4(f * v.x, f * v.y, f * v.z, f * v.w);
      }
    });
  }

  /// Folds kUnit terms from k0 on, of which the first lies `inside` its stage.
  template <int kPart>
  __device__ __forceinline__ void fold(const float* factor, int k0) {
    const int y = Tile::y(), column = d0 + 4 * Tile::x(), end = min(Tile::kUnit, chunk - k0);
    const float* rows = memory.rows + k0 * Tile::kColumns + 4 * Tile::x();
    const float* own = factor + y * Tile::kFactorStride + k0 % Tile::kDepth;
#pragma unroll 1
    for (int k = 0; k < end; k += 4) {
      float m[Tile::kThreadRows][4];
#pragma unroll
      for (int r = kPart; r < Tile::kThreadRows; ++r)
        device::unpack(*reinterpret_cast<const float4*>(own + r * Tile::kThreadsY * Tile::kFactorStride + k), m[r]);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int begin = column + h * Tile::kHalf;
        if (kOfB && k0 + k < d0 + h * Tile::kHalf) continue;  // the whole half is past the diagonal
        const bool begun = !kOfB || k0 + k >= begin, past = !kOfB || k0 + k > begin;
#pragma unroll
        for (int u = 0; u < 4; ++u) {
          float x[4];
          device::unpack(*reinterpret_cast<const float4*>(rows + (k + u) * Tile::kColumns + h * Tile::kHalf), x);
#pragma unroll
          for (int r = kPart; r < Tile::kThreadRows; ++r) {
            const bool inside = r > kPart || k0 - kPart * Tile::kRun + k + u <= y;
#pragma unroll
            for (int i = 0; i < 4; ++i) {
              const int s = r % 2 == 0 ? i : 3 - i;  // neighbours share an operand: flagship 660 us to 646
              if (inside && (u >= s ? begun : past)) acc[r][h][s] = fma_rn(m[r][u], x[s], acc[r][h][s]);
            }
          }
        }
      }
    }
  }

  /// A whole product. The next stage is on its way while one is used.
  __device__ __forceinline__ void run(int product, bool last_product) {
#pragma unroll 1
    for (int k0 = kOfB ? d0 : 0; k0 < chunk; k0 += Tile::kUnit) {
      if (k0 % Tile::kDepth == 0) {
        device::wait_copies_but<0>();
        if (product == 0) scale(k0);
        __syncthreads();  // the stage is there, and everyone has left the other one
        stage ^= 1;
        const bool more = k0 + Tile::kDepth < chunk;
        if (more || !last_product) fetch(more ? product : product + 1, more ? k0 + Tile::kDepth : 0);
      }
      const float* factor = memory.factor[stage ^ 1];
      switch (k0 / Tile::kRun) {
        case 0: fold<0>(factor, k0); break;
        case 1: fold<1>(factor, k0); break;
        case 2: fold<2>(factor, k0); break;
        case 3: fold<3>(factor, k0); break;
        case 4: fold<4>(factor, k0); break;
        case 5: fold<5>(factor, k0); break;
        case 6: fold<6>(factor, k0); break;
        default: fold<7>(factor, k0);
      }
    }
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int r = 0; r < Tile::kThreadRows; ++r)
#pragma unroll
      for (int s = 0; s < 4; ++s) acc[r][0][s] = acc[r][1][s] = 0.0f;
  }
  /// body(row, column inside the tile, values) for the thread's output vectors.
  template <typename Body>
  __device__ __forceinline__ void for_outputs(Body&& body) const {
    int first_row = Tile::y(), first_column = 4 * Tile::x();
    asm volatile("" : "+r"(first_row), "+r"(first_column));  // or places of outputs fill the registers from the start
#pragma unroll
    for (int r = 0; r < Tile::kThreadRows; ++r)
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const int row = r * Tile::kThreadsY + first_row, column = first_column + h * Tile::kHalf;
        if (row < chunk && d0 + column < width)
          body(row, column, make_float4(acc[r][h][0], acc[r][h][1], acc[r][h][2], acc[r][h][3]));
      }
  }
};

template <typename Tile>
__device__ __forceinline__ void values_of_chunk(const Params& p, std::int64_t chunk, int d0,
                                                ChunkMemory<Tile>& memory) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const std::int64_t matrix = chunk * c * c, rows = chunk * c * d;
  ChunkProducts<Tile, false> work{memory, p.s + matrix, p.qk + matrix, p.v + rows, c, d, d0};
  work.fetch(0, 0);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < c; i += Tile::kThreads) memory.beta[i] = p.beta[chunk * c + i];
  __syncthreads();
#pragma unroll 1
  for (int product = 0; product < 2; ++product) {
    work.clear();
    work.run(product, product == 1);
    float* out = (product == 0 ? p.base_dv : p.base_out) + rows + d0;
    if (product == 0) __syncthreads();  // everyone is done with the values
    work.for_outputs([&](int row, int column, const float4& v) {
      if (product == 0) *reinterpret_cast<float4*>(memory.rows + row * Tile::kColumns + column) = v;
      *reinterpret_cast<float4*>(out + row * d + column) = v;
    });
  }
}

template <typename Tile>
__device__ __forceinline__ void matrices_of_chunk(const Params& p, std::int64_t chunk, int d0,
                                                  ChunkMemory<Tile>& memory) {
  const int c = p.dims.chunk;
  const std::int64_t matrix = chunk * c * c;
  ChunkProducts<Tile, true> work{memory, p.qk + matrix, nullptr, p.s + matrix, c, c, d0};
  work.fetch(0, d0);
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < c; i += Tile::kThreads) memory.beta[i] = p.beta[chunk * c + i];
  __syncthreads();
  work.clear();
  work.run(0, true);
  work.for_outputs([&](int row, int column, const float4& v) {
    if (device::above_diagonal(row, d0 + column)) return;
    const float4 own = *reinterpret_cast<const float4*>(memory.rows + row * Tile::kColumns + column);
    const std::int64_t at = matrix + row * c + d0 + column;
    *reinterpret_cast<float4*>(p.b + at) = own;
    *reinterpret_cast<float4*>(p.qb + at) = v;
  });
}

/// grid: the column tiles, chunk after chunk, then the tiles of B and QB, the longest first: CTAs of two products begin
/// before those of one, which fill up what they leave. Chunk by chunk, small120 took 78 us on an H200, and so 72.
template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 512 / Tile::kThreads)
    chunk_kernel(const __grid_constant__ Params p, int column_tiles) {
  auto& memory = *reinterpret_cast<ChunkMemory<Tile>*>(device::dynamic_shared());
  device::wait_for_previous_grid();
  const auto chunks = static_cast<unsigned>(p.dims.chunks()), across = static_cast<unsigned>(column_tiles);
  if (blockIdx.x < chunks * across) {
    values_of_chunk<Tile>(p, blockIdx.x / across, static_cast<int>(blockIdx.x % across) * Tile::kColumns, memory);
  } else {
    const unsigned tile = blockIdx.x - chunks * across;
    matrices_of_chunk<Tile>(p, tile % chunks, static_cast<int>(tile / chunks) * Tile::kColumns, memory);
  }
}

}  // namespace sdm::combine
