// solve, variant `blocked`: S in blocks of 32 x 32, a warp per block, 8 rows x 4 columns a lane. The warps of a column
// of blocks work side by side: once a block is finished, which its barrier tells, all blocks below it fold it in, each
// from its own panel of L in shared memory, and the next one down is then finished. Each S[i][c] is still one fold over
// k ascending.
#include "kernels/common/copy_engine.cuh"
#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/solve/solve.h"

namespace sdm::solve {
namespace {

constexpr int kBlock = 32;              // rows and columns of a block
constexpr int kTile = kBlock * kBlock;  // its elements
constexpr int kStride = kBlock + 4;     // of a panel's rows: neighbours in different banks
constexpr int kPanel = kBlock * kStride;
constexpr int kMostWarps = 9;  // of a CTA: 256 tokens are 8 rows of blocks

// --- kernels ---------------------------------------------------------------------------------------------------------

/// What a warp makes: block (row, column) of S of one chunk. `step`: the finished blocks above it in its column.
struct Block {
  const float* a;     ///< of the chunk
  const float* beta;  ///< of the chunk
  float* s;           ///< of the chunk
  int chunk, row, column, step;
};

/// A lane's rows are y, y + 4, .. y + 28 of the block, its columns x, .. x + 3. Shared loads limit this kernel (16
/// bytes a lane take four cycles, also where all lanes want the same): 12 of them serve 128 multiply-adds.
constexpr int kLaneRows = 8;
__device__ __forceinline__ int lane_x() { return device::lane_id() % 8 * 4; }
__device__ __forceinline__ int lane_y() { return device::lane_id() / 8; }
using Accumulators = float[kLaneRows][4];

__device__ __forceinline__ void read_four(const float* at, float (&out)[4]) {
  const float4 v = *reinterpret_cast<const float4*>(at);
  out[0] = v.x, out[1] = v.y, out[2] = v.z, out[3] = v.w;
}

/// The warp's next panel of L = diag(beta) A on its way: 32 rows of the block, 32 k. A vector is 4 k of a row; 8 lanes
/// share a row.
template <bool kVector>
struct PanelLoads {
  static constexpr int kVectors = kTile / 4 / 32;
  float4 value[kVectors];

  __device__ __forceinline__ void load(const Block& block, int k_block) {
    const int k = kBlock * k_block + device::lane_id() % 8 * 4;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int row = kBlock * block.row + 4 * v + device::lane_id() / 8;
      value[v] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (row >= block.chunk) continue;
      const float* at = block.a + row * block.chunk + k;
      if constexpr (kVector) {
        if (k < block.chunk) value[v] = *reinterpret_cast<const float4*>(at);
      } else {
        if (k < block.chunk) value[v].x = at[0];
        if (k + 1 < block.chunk) value[v].y = at[1];
        if (k + 2 < block.chunk) value[v].z = at[2];
        if (k + 3 < block.chunk) value[v].w = at[3];
      }
    }
  }
  /// Leaves L in the warp's panel, [row][k]. `beta`: of the block's rows, zeros past the chunk.
  __device__ __forceinline__ void store(const float* beta, float* panel) const {
    __syncwarp();  // everyone has left the panel
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const float f = beta[4 * v + device::lane_id() / 8];
      *reinterpret_cast<float4*>(panel + (4 * v + lane_y()) * kStride + lane_x()) =
          make_float4(f * value[v].x, f * value[v].y, f * value[v].z, f * value[v].w);
    }
    __syncwarp();
  }
};

/// Which terms of row k0 + u, columns x + v are there, k0 and x multiples of 4: those with k >= column, where the rows
/// are those of a diagonal block.
template <bool kDiagonal>
struct Terms {
  bool begun, past;
  __device__ __forceinline__ explicit Terms(int k0)
      : begun(!kDiagonal || k0 >= lane_x()), past(!kDiagonal || k0 > lane_x()) {}
  __device__ __forceinline__ bool at(int u, int v) const { return u >= v ? begun : past; }
};

/// acc += l * s for the lane's rows from kFrom on and the 4 k from k0 on, in their order.
template <int kFrom, bool kDiagonal>
__device__ __forceinline__ void fold_four(const float* panel, int k0, const Terms<kDiagonal>& terms,
                                          const float (&s)[4][4], Accumulators& acc) {
#pragma unroll
  for (int r = kFrom; r < kLaneRows; ++r) {
    float l[4];
    read_four(panel + (4 * r + lane_y()) * kStride + k0, l);
#pragma unroll
    for (int u = 0; u < 4; ++u)
#pragma unroll
      for (int v = 0; v < 4; ++v)
        if (terms.at(u, v)) acc[r][v] = fma_rn(l[u], s[u][v], acc[r][v]);
  }
}

/// Folds a finished block of the column in; in the diagonal one, S[k][c] is zero before k = c: no term.
template <bool kDiagonal>
__device__ __forceinline__ void fold_block(const float* panel, const float* finished, Accumulators& acc) {
#pragma unroll 1
  for (int k = 0; k < kBlock; k += 4) {
    float s[4][4];
#pragma unroll
    for (int u = 0; u < 4; ++u) read_four(finished + (k + u) * kBlock + lane_x(), s[u]);
    fold_four<0>(panel, k, Terms<kDiagonal>(k), s, acc);
  }
}

/// Rows 4*kRows .. 4*kRows + 3 of the block, then all later ones: each is finished once those before it are folded in.
/// The four rows' sums go round, so that every lane finishes its columns of all four and folds them into its later
/// rows.
template <bool kDiagonal, int kRows = 0>
__device__ __forceinline__ void finish_rows(const float* panel, float* finished, Accumulators& acc) {
  if constexpr (kRows < kLaneRows) {
    constexpr int kRow = 4 * kRows;
    float* rows = finished + kRow * kBlock + lane_x();
    *reinterpret_cast<float4*>(rows + lane_y() * kBlock) =
        make_float4(acc[kRows][0], acc[kRows][1], acc[kRows][2], acc[kRows][3]);
    __syncwarp();
    const Terms<kDiagonal> terms(kRow);
    float s[4][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float l[4];
      read_four(rows + r * kBlock, s[r]);
      if (r > 0) read_four(panel + (kRow + r) * kStride + kRow, l);
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        float sum = s[r][v];
#pragma unroll
        for (int u = 0; u < r; ++u)
          if (terms.at(u, v)) sum = fma_rn(l[u], s[u][v], sum);
        s[r][v] = device::negated(sum);
        if (kDiagonal && kRow + r <= lane_x() + v) s[r][v] = kRow + r == lane_x() + v ? 1.0f : 0.0f;
      }
    }
    __syncwarp();
    if (lane_y() == 0)
#pragma unroll
      for (int r = 0; r < 4; ++r)
        *reinterpret_cast<float4*>(rows + r * kBlock) = make_float4(s[r][0], s[r][1], s[r][2], s[r][3]);
    fold_four<kRows + 1>(panel, kRow, terms, s, acc);
    finish_rows<kDiagonal, kRows + 1>(panel, finished, acc);
  }
}

/// Rows i0 .. i0 + 31, columns c0 .. c0 + 31 of S, those that exist: `four(r, x)` gives columns x .. x + 3 of row r.
template <bool kVector, typename Four>
__device__ __forceinline__ void store_tile(const Block& block, int i0, int c0, Four&& four) {
  const int x = lane_x(), chunk = block.chunk;
#pragma unroll
  for (int v = 0; v < kLaneRows; ++v) {
    const int r = 4 * v + lane_y();
    if (i0 + r >= chunk) continue;
    const float4 value = four(r, x);
    float* at = block.s + (i0 + r) * chunk + c0 + x;
    if constexpr (kVector) {
      if (c0 + x < chunk) *reinterpret_cast<float4*>(at) = value;
    } else {
      if (c0 + x < chunk) at[0] = value.x;
      if (c0 + x + 1 < chunk) at[1] = value.y;
      if (c0 + x + 2 < chunk) at[2] = value.z;
      if (c0 + x + 3 < chunk) at[3] = value.w;
    }
  }
}

/// A CTA's shared memory: per warp the panel [32][36], the finished block, the beta of its rows, and a barrier that
/// tells when the block is finished.
struct Shared {
  float* base;
  int warps;
  __device__ __forceinline__ float* panel(int warp) const { return base + warp * kPanel; }
  __device__ __forceinline__ float* finished(int warp) const { return base + warps * kPanel + warp * kTile; }
  __device__ __forceinline__ float* beta(int warp) const { return base + warps * (kPanel + kTile) + warp * kBlock; }
  __device__ __forceinline__ std::uint32_t barrier(int warp) const {
    return device::shared_address(base + warps * (kPanel + kTile + kBlock) + 2 * warp);
  }
  static std::size_t bytes(int warps) {
    return static_cast<std::size_t>(warps) * (sizeof(float) * (kPanel + kTile + kBlock) + 8);
  }
};

/// 24 us at small120 on an H200 and 67 at flagship; a thread a column took 36 and 115, stores of 4 bytes at the end 26
/// and 72.
/// grid: (chunk, pair of columns of blocks), the longest columns first. A CTA takes column q and column blocks - 1 - q:
/// blocks + 1 warps, however long the columns are.
template <bool kVector>
__global__ void __launch_bounds__(32 * kMostWarps, 2) blocked_kernel(const __grid_constant__ Params p, int blocks) {
  const Shared shared{reinterpret_cast<float*>(device::dynamic_shared()), blocks + 1};
  const int chunk = p.dims.chunk, warp = device::warp_id();
  if (device::lane_id() == 0) device::init_barrier(shared.barrier(warp), 32);
  __syncthreads();
  const int q = static_cast<int>(blockIdx.x / p.dims.chunks()), long_column = blocks - q;
  const std::int64_t item = blockIdx.x % p.dims.chunks();
  Block block{p.a + item * chunk * chunk, p.beta + item * chunk, p.s + item * chunk * chunk, chunk, 0, q, warp};
  if (warp >= long_column) block.column = blocks - 1 - q, block.step = warp - long_column;
  if (warp >= long_column && block.column == q) return;  // the middle column of an odd number has no partner
  block.row = block.column + block.step;
  device::wait_for_previous_grid();
  PanelLoads<kVector> loads;
  loads.load(block, block.column);
  if (block.row != block.column)  // the block mirrored at the diagonal, while the loads are on their way
    store_tile<kVector>(block, kBlock * block.column, kBlock * block.row, [](int, int) { return float4{}; });
  float *panel = shared.panel(warp), *finished = shared.finished(warp), *beta = shared.beta(warp);
  const int own_row = kBlock * block.row + device::lane_id();
  beta[device::lane_id()] = own_row < chunk ? block.beta[own_row] : 0.0f;
  Accumulators acc = {};
  for (int step = 0; step < block.step; ++step) {
    const int above = warp - block.step + step;  // whose block is `step` of the column
    device::wait(shared.barrier(above), 0);
    loads.store(beta, panel);
    if (step == 0)
      fold_block<true>(panel, shared.finished(above), acc);
    else
      fold_block<false>(panel, shared.finished(above), acc);
    loads.load(block, block.column + step + 1);  // on its way while the warp waits, not held while it folds
  }
  loads.store(beta, panel);
  if (block.step == 0)
    finish_rows<true>(panel, finished, acc);
  else
    finish_rows<false>(panel, finished, acc);
  device::arrive(shared.barrier(warp));  // every lane for what it wrote
  __syncwarp();
  store_tile<kVector>(block, kBlock * block.row, kBlock * block.column,
                      [&](int r, int x) { return *reinterpret_cast<const float4*>(finished + r * kBlock + x); });
}

// --- launchers -------------------------------------------------------------------------------------------------------

int blocks_of(const Params& p) { return device::ceil_div(p.dims.chunk, kBlock); }

device::LaunchShape shape_of(const Params& p) {
  const int blocks = blocks_of(p), pairs = device::ceil_div(blocks, 2), warps = blocks == 1 ? 1 : blocks + 1;
  return {dim3(static_cast<unsigned>(p.dims.chunks() * pairs)), 32 * warps, Shared::bytes(blocks + 1)};
}

std::string refuse(const Params& p, const Device& device) {
  const std::size_t needed = shape_of(p).shared_bytes;
  if (needed <= device.shared_memory_per_block) return "";
  return "solve needs " + std::to_string(needed) + " bytes of shared memory for chunk " + std::to_string(p.dims.chunk) +
         "; this device gives " + std::to_string(device.shared_memory_per_block) + " a CTA (a smaller chunk)";
}

void launch(const Params& p, const LaunchContext& context) {
  device::launch(p.dims.chunk % 4 == 0 ? blocked_kernel<true> : blocked_kernel<false>, shape_of(p), context, p,
                 blocks_of(p));
}

std::string describe_launch(const Params& p, const LaunchContext&) {
  return device::describe(shape_of(p)) + ", a warp a block of " + std::to_string(kBlock) + " x " +
         std::to_string(kBlock);
}

}  // namespace

const Variant<Params> blocked = {
    .name = "blocked",
    .why = "any chunk; the faster one from about 16 tokens on",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::solve
