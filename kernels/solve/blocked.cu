// solve, variant `blocked`: a thread holds 32 rows of one column of S in registers. Rows of earlier blocks are folded
// in from the thread's history in shared memory; within the block every finished row goes into the later ones at once.
// L comes in panels of 32 rows x 64 k, the next one on its way while one is used. Each S[i][c] is still one fold over k
// ascending.
#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/solve/solve.h"

namespace sdm::solve {
namespace {

constexpr int kColumns = 64;  // a CTA, and the k of a panel
constexpr int kBlock = 32;  // rows; flagship took 115 us on an H200, 245 with 8 rows and a k of its own for every lane

// --- kernels ---------------------------------------------------------------------------------------------------------

/// A thread's part of a panel on its way: half of the k of one row.
template <bool kVector>
struct PanelLoads {
  static constexpr int kVectors = kColumns / 2 / 4;
  float4 value[kVectors];
  float factor;

  /// `a`, `beta`: of the chunk. Zeros past the end.
  __device__ __forceinline__ void load(const float* a, const float* beta, int chunk, int i0, int k0) {
    const int row = i0 + static_cast<int>(threadIdx.x) % kBlock;
    const int first = k0 + static_cast<int>(threadIdx.x) / kBlock * (kColumns / 2);
    factor = row < chunk ? beta[row] : 0.0f;
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      const int k = first + 4 * v;
      const float* at = a + row * chunk + k;
      value[v] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      if (row >= chunk) continue;
      if constexpr (kVector) {
        if (k < chunk) value[v] = *reinterpret_cast<const float4*>(at);
      } else {
        if (k < chunk) value[v].x = at[0];
        if (k + 1 < chunk) value[v].y = at[1];
        if (k + 2 < chunk) value[v].z = at[2];
        if (k + 3 < chunk) value[v].w = at[3];
      }
    }
  }
  /// Leaves L, [k][row], in the panel: the lanes of a warp are the rows.
  __device__ __forceinline__ void store(float* panel) const {
    float* at = panel + threadIdx.x % kBlock + threadIdx.x / kBlock * (kColumns / 2 * kBlock);
#pragma unroll
    for (int v = 0; v < kVectors; ++v) {
      at[(4 * v + 0) * kBlock] = factor * value[v].x;
      at[(4 * v + 1) * kBlock] = factor * value[v].y;
      at[(4 * v + 2) * kBlock] = factor * value[v].z;
      at[(4 * v + 3) * kBlock] = factor * value[v].w;
    }
  }
};

/// acc[r] += l[r] * s for r >= kFrom of one k of the panel, where `on`.
template <int kFrom>
__device__ __forceinline__ void fold_row(const float* l, float s, bool on, float (&acc)[kBlock]) {
#pragma unroll
  for (int r0 = kFrom / 4 * 4; r0 < kBlock; r0 += 4) {
    const float4 v = *reinterpret_cast<const float4*>(l + r0);
    const float values[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int r = 0; r < 4; ++r)
      if (r0 + r >= kFrom && on) acc[r0 + r] = fma_rn(values[r], s, acc[r0 + r]);
  }
}

/// The column of S that a thread makes, within its chunk.
struct Column {
  float* s;        ///< of the chunk
  float* history;  ///< finished rows from c0 on, stride kColumns
  int c, c0, chunk;
};

/// Rows i0 + kRow and later of the block: row kRow is finished once all before it are folded in.
template <int kRow>
__device__ __forceinline__ void finish_rows(const Column& column, const float* panel, int i0, float (&acc)[kBlock]) {
  if constexpr (kRow < kBlock) {
    const int i = i0 + kRow;
    const float s = i > column.c ? device::negated(acc[kRow]) : (i == column.c ? 1.0f : 0.0f);
    column.history[(i - column.c0) * kColumns] = s;
    if (i < column.chunk && column.c < column.chunk) column.s[i * column.chunk + column.c] = s;
    fold_row<kRow + 1>(panel + kRow * kBlock, s, i >= column.c, acc);
    finish_rows<kRow + 1>(column, panel, i0, acc);
  }
}

/// grid: (chunk, block of columns), the longest columns first. Shared: the history [C - c0, up to a block][kColumns].
template <bool kVector>
__global__ void __launch_bounds__(kColumns) blocked_kernel(const __grid_constant__ Params p) {
  __shared__ float4 shared_panel[kColumns * kBlock / 4];
  float* panel = reinterpret_cast<float*>(shared_panel);
  device::wait_for_previous_grid();
  const int chunk = p.dims.chunk, thread = static_cast<int>(threadIdx.x);
  const std::int64_t item = blockIdx.x % p.dims.chunks();
  const int c0 = static_cast<int>(blockIdx.x / p.dims.chunks()) * kColumns;
  const float* a = p.a + item * chunk * chunk;
  const float* beta = p.beta + item * chunk;
  const Column column{p.s + item * chunk * chunk, reinterpret_cast<float*>(device::dynamic_shared()) + thread,
                      c0 + thread, c0, chunk};
  PanelLoads<kVector> loads;
  loads.load(a, beta, chunk, c0, c0);
  if (column.c < chunk)
    for (int i = 0; i < c0; ++i) column.s[i * chunk + column.c] = 0.0f;
  for (int i0 = c0; i0 < chunk; i0 += kBlock) {
    float acc[kBlock] = {};
    for (int k0 = c0; k0 <= i0; k0 += kColumns) {
      __syncthreads();  // everyone has left the panel
      loads.store(panel);
      __syncthreads();
      if (k0 + kColumns <= i0)
        loads.load(a, beta, chunk, i0, k0 + kColumns);
      else if (i0 + kBlock < chunk)
        loads.load(a, beta, chunk, i0 + kBlock, c0);
      const int earlier = min(i0 - k0, kColumns);
#pragma unroll 2
      for (int k = 0; k < earlier; ++k)  // S[k][c] is zero before k = c: no term
        fold_row<0>(panel + k * kBlock, column.history[(k0 - c0 + k) * kColumns], k0 + k >= column.c, acc);
      if (i0 - k0 < kColumns) finish_rows<0>(column, panel + earlier * kBlock, i0, acc);
    }
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

device::LaunchShape shape_of(const Params& p) {
  const int chunk = p.dims.chunk;
  const std::int64_t rows = device::ceil_div(chunk, kBlock) * kBlock;
  return {dim3(static_cast<unsigned>(p.dims.chunks() * device::ceil_div(chunk, kColumns))), kColumns,
          static_cast<std::size_t>(rows * kColumns) * 4};
}

std::string refuse(const Params& p, const Device& device) {
  constexpr std::size_t kPanel = kColumns * kBlock * 4;
  const std::size_t needed = shape_of(p).shared_bytes + kPanel;
  if (needed <= device.shared_memory_per_block) return "";
  return "solve needs " + std::to_string(needed) + " bytes of shared memory for chunk " + std::to_string(p.dims.chunk) +
         "; this device gives " + std::to_string(device.shared_memory_per_block) + " a CTA (a smaller chunk)";
}

void launch(const Params& p, const LaunchContext& context) {
  device::launch(p.dims.chunk % 4 == 0 ? blocked_kernel<true> : blocked_kernel<false>, shape_of(p), context, p);
}

std::string describe_launch(const Params& p, const LaunchContext&) {
  return device::describe(shape_of(p)) + ", " + std::to_string(kColumns) + " columns a CTA, " + std::to_string(kBlock) +
         " rows at a time";
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
