// solve, variant `blocked`: S in blocks of 32 x 32, a warp per block, 8 rows x 4 columns a lane. The warps of a column
// of blocks work side by side: rows of a block that are finished, which barriers tell, are folded in by all blocks
// below it, each from its own panel of L in shared memory. Each S[i][c] is still one fold over k ascending.
#include "kernels/common/async_copy.cuh"
#include "kernels/common/copy_engine.cuh"
#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/solve/solve.h"

namespace sdm::solve {
namespace {

constexpr int kBlock = 32;                                 // rows and columns of a block
constexpr int kRowBytes = 4 * (kBlock + 4);                // of a panel: neighbours in different banks
constexpr int kPanelBytes = kBlock * kRowBytes;            // in shared memory
constexpr int kPieces = 4, kPieceRows = kBlock / kPieces;  // of a block: rows that are passed on together
constexpr int kMostWarps = 9;                              // of a CTA: 256 tokens are 8 rows of blocks

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

/// Shared memory by its 32-bit address: from a pointer the compiler makes it anew for every row.
__device__ __forceinline__ void read_four(std::uint32_t at, float (&out)[4]) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(out[0]), "=f"(out[1]), "=f"(out[2]), "=f"(out[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void write_four(std::uint32_t at, const float (&in)[4]) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(in[0]), "f"(in[1]), "f"(in[2]), "f"(in[3])
               : "memory");
}

/// Asks for a panel of A: rows of the block, 32 k. A vector is 4 k of a row; 8 lanes share a row. `own`: the lane's
/// first one. (To leave out what lies above the diagonal took registers that the folds need: 24 us at small120.)
template <bool kVector>
__device__ __forceinline__ void ask_panel(const Block& block, int k_block, std::uint32_t own) {
  const int k = kBlock * k_block + lane_x(), first = kBlock * block.row + lane_y();
  const float* from = block.a + first * block.chunk + k;
#pragma unroll
  for (int v = 0; v < kLaneRows; ++v) {
    const int present = first + 4 * v < block.chunk ? min(max(block.chunk - k, 0), 4) : 0;
    const float* at = from + 4 * v * block.chunk;
    if constexpr (kVector) {
      device::copy_async_part(own + 4 * v * kRowBytes, present > 0 ? at : block.a, 4 * present);
    } else {
      float value[4];
#pragma unroll
      for (int j = 0; j < 4; ++j) value[j] = j < present ? at[j] : 0.0f;
      write_four(own + 4 * v * kRowBytes, value);
    }
  }
  device::commit_copies();
}
/// What this lane asked for is there: leaves L = diag(beta) A in its place. `beta`: of the lane's first row.
__device__ __forceinline__ void scale_panel(std::uint32_t own, const float* beta) {
  device::wait_copies_but<0>();
#pragma unroll
  for (int v = 0; v < kLaneRows; ++v) {
    float a[4];
    read_four(own + 4 * v * kRowBytes, a);
#pragma unroll
    for (int j = 0; j < 4; ++j) a[j] = beta[4 * v] * a[j];
    write_four(own + 4 * v * kRowBytes, a);
  }
  __syncwarp();
}

/// Which terms of row k0 + u, columns x + v are there, k0 and x multiples of 4: those with k >= column, where the rows
/// are those of a diagonal block.
struct Terms {
  std::uint32_t begun, past;
  __device__ __forceinline__ Terms(bool diagonal, int k0)
      : begun(!diagonal || k0 >= lane_x()), past(!diagonal || k0 > lane_x()) {}
  __device__ __forceinline__ std::uint32_t at(int u, int v) const { return u >= v ? begun : past; }
};
/// sum += l * s where `there`: a predicate, no branch, which made a diagonal block three times as slow as the others.
__device__ __forceinline__ void fold_where(std::uint32_t there, float l, float s, float& sum) {
  asm("{\n .reg .pred there;\n setp.ne.u32 there, %1, 0;\n @there fma.rn.f32 %0, %2, %3, %0;\n}"
      : "+f"(sum)
      : "r"(there), "f"(l), "f"(s));
}
/// x, or the one NaN, which a product gives.
__device__ __forceinline__ float times_one(float x) {
  float y;
  asm("mul.rn.f32 %0, %1, 0f3F800000;" : "=f"(y) : "f"(x));
  return y;
}

/// acc += l * s for the lane's rows from kFrom on and 4 k, in their order. `l_at`: of the lane's first row.
template <int kFrom>
__device__ __forceinline__ void fold_four(std::uint32_t l_at, const Terms& terms, const float (&s)[4][4],
                                          Accumulators& acc) {
#pragma unroll
  for (int r = kFrom; r < kLaneRows; ++r) {
    float l[4];
    read_four(l_at + 4 * r * kRowBytes, l);
#pragma unroll
    for (int u = 0; u < 4; ++u)
#pragma unroll
      for (int v = 0; v < 4; ++v) fold_where(terms.at(u, v), l[u], s[u][v], acc[r][v]);
  }
}

/// Rows 4*kRows .. 4*kRows + 3 of the block, then all later ones: each is finished once those before it are folded in.
/// The four rows' sums go round, so that every lane finishes its columns of all four and folds them into its later
/// rows. Signs are turned where a value is used, so that no fold waits for it.
template <int kRows = 0>
__device__ __forceinline__ void finish_rows(bool diagonal, std::uint32_t panel, std::uint32_t finished,
                                            std::uint32_t barrier, Accumulators& acc) {
  if constexpr (kRows < kLaneRows) {
    constexpr int kRow = 4 * kRows;
    const std::uint32_t rows = finished + kRow * kRowBytes + 4 * lane_x();
    write_four(rows + lane_y() * kRowBytes, acc[kRows]);
    __syncwarp();
    const Terms terms(diagonal, kRow);
    const float unit = diagonal && kRow == lane_x() ? 1.0f : 0.0f;
    float s[4][4];
#pragma unroll
    for (int r = 0; r < 4; ++r) read_four(rows + r * kRowBytes, s[r]);
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float l[4];
      if (r > 0) read_four(panel + (kRow + r) * kRowBytes + 4 * kRow, l);
#pragma unroll
      for (int v = 0; v < 4; ++v) {
        float sum = s[r][v];
#pragma unroll
        for (int u = 0; u < r; ++u) fold_where(terms.at(u, v), l[u], s[u][v], sum);
        s[r][v] = terms.at(r - 1, v) ? -sum : (r == v ? unit : 0.0f);
      }
    }
    __syncwarp();
    if (lane_y() == 0)
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        const float row[4] = {times_one(s[r][0]), times_one(s[r][1]), times_one(s[r][2]), times_one(s[r][3])};
        write_four(rows + r * kRowBytes, row);
      }
    // All lanes, though one would do: racecheck does not see what a lane stores for whom another one arrives.
    if ((kRow + 4) % kPieceRows == 0) device::arrive(barrier + 8 * (kRow / kPieceRows));
    fold_four<kRows + 1>(panel + lane_y() * kRowBytes + 4 * kRow, terms, s, acc);
    finish_rows<kRows + 1>(diagonal, panel, finished, barrier, acc);
  }
}

/// The finished block to its place, up to the diagonal and to the end of its sector (zeros), written through at once
/// (52.2 us at flagship on an H200 in place of 52.9).
template <bool kVector>
__device__ __forceinline__ void store_block(const Block& block, std::uint32_t finished) {
  const int i0 = kBlock * block.row, c0 = kBlock * block.column, x = lane_x(), chunk = block.chunk;
#pragma unroll
  for (int v = 0; v < kLaneRows; ++v) {
    const int r = 4 * v + lane_y();
    if (i0 + r >= chunk || c0 + x / 8 * 8 > i0 + r) continue;
    float value[4];
    read_four(finished + r * kRowBytes + 4 * x, value);
    float* at = block.s + (i0 + r) * chunk + c0 + x;
    if constexpr (kVector) {
      if (c0 + x < chunk) __stwt(reinterpret_cast<float4*>(at), make_float4(value[0], value[1], value[2], value[3]));
    } else {
#pragma unroll
      for (int j = 0; j < 4; ++j)
        if (c0 + x + j < chunk) at[j] = value[j];
    }
  }
}

/// A CTA's shared memory: per warp two panels [32][36], the beta of its rows, and barriers that tell which rows of its
/// block are finished. Panels of L take turns; the finished block takes the place of the last but one.
struct Shared {
  unsigned char* base;
  int warps;
  __device__ __forceinline__ std::uint32_t panel(int warp, int turn) const {
    return device::shared_address(base) + (2 * warp + turn % 2) * kPanelBytes;
  }
  __device__ __forceinline__ float* beta(int warp) const {
    return reinterpret_cast<float*>(base + 2 * warps * kPanelBytes) + warp * kBlock;
  }
  __device__ __forceinline__ std::uint32_t barrier(int warp) const {
    return device::shared_address(base) + warps * (2 * kPanelBytes + 4 * kBlock) + 8 * kPieces * warp;
  }
  static std::size_t bytes(int warps) {
    return static_cast<std::size_t>(warps) * (2 * kPanelBytes + 4 * kBlock + 8 * kPieces);
  }
};

/// Folds in the finished blocks above the warp's own, rows as they are finished. The panel of the next one comes
/// meanwhile. `own`: the lane's first vector of a panel.
template <bool kVector>
__device__ __forceinline__ void fold_above(const Block& block, const Shared& shared, int warp, std::uint32_t own,
                                           const float* beta, Accumulators& acc) {
#pragma unroll 1
  for (int step = 0; step < block.step; ++step) {
    const int above = warp - block.step + step;  // whose block is `step` of the column
    const std::uint32_t next = shared.panel(warp, step + 1) + own;
    ask_panel<kVector>(block, block.column + step + 1, next);
    std::uint32_t l = shared.panel(warp, step) + lane_y() * kRowBytes;
    std::uint32_t rows = shared.panel(above, step + 1) + 4 * lane_x();
#pragma unroll 2
    for (int k = 0; k < kBlock; k += 4, l += 4 * sizeof(float), rows += 4 * kRowBytes) {
      if (k == kBlock - kPieceRows) scale_panel(next, beta);
      if (k % kPieceRows == 0) device::wait(shared.barrier(above) + 8 * (k / kPieceRows), 0);
      float s[4][4];
#pragma unroll
      for (int u = 0; u < 4; ++u) read_four(rows + u * kRowBytes, s[u]);
      fold_four<0>(l, Terms(step == 0, k), s, acc);
    }
    __syncwarp();  // everyone has left the panel
  }
}

/// 20 us at small120 on an H200 and 52 at flagship. With blocks passed on whole, panels scaled when they were due,
/// branches in the diagonal blocks and zeros stored above them 23 and 66; a thread a column took 36 and 115.
/// grid: (chunk, pair of columns of blocks), the longest columns first. A CTA takes column q and column blocks - 1 - q:
/// blocks + 1 warps, however long the columns are.
template <bool kVector>
__global__ void __launch_bounds__(32 * kMostWarps, 2) blocked_kernel(const __grid_constant__ Params p, int blocks) {
  const Shared shared{device::dynamic_shared(), blocks + 1};
  const int chunk = p.dims.chunk, warp = device::warp_id();
  if (device::lane_id() < kPieces) device::init_barrier(shared.barrier(warp) + 8 * device::lane_id(), 32);
  __syncthreads();
  const int q = static_cast<int>(blockIdx.x / p.dims.chunks()), long_column = blocks - q;
  const std::int64_t item = blockIdx.x % p.dims.chunks();
  Block block{p.a + item * chunk * chunk, p.beta + item * chunk, p.s + item * chunk * chunk, chunk, 0, q, warp};
  if (warp >= long_column) block.column = blocks - 1 - q, block.step = warp - long_column;
  if (warp >= long_column && block.column == q) return;  // the middle column of an odd number has no partner
  block.row = block.column + block.step;
  device::wait_for_previous_grid();
  const std::uint32_t own = lane_y() * kRowBytes + 4 * lane_x();
  ask_panel<kVector>(block, block.column, shared.panel(warp, 0) + own);
  float* beta = shared.beta(warp);
  const int own_row = kBlock * block.row + device::lane_id();
  const float own_beta = own_row < chunk ? block.beta[own_row] : 0.0f;
  beta[device::lane_id()] = own_beta;
  __syncwarp();
  scale_panel(shared.panel(warp, 0) + own, beta + lane_y());
  Accumulators acc = {};
  fold_above<kVector>(block, shared, warp, own, beta + lane_y(), acc);
  const std::uint32_t finished = shared.panel(warp, block.step + 1);
  finish_rows(block.step == 0, shared.panel(warp, block.step), finished, shared.barrier(warp), acc);
  __syncwarp();
  store_block<kVector>(block, finished);
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
