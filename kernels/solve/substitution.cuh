#pragma once
// Forward substitution, a thread per column of S, kRows rows at a time. Each S[i][c] is one fold over k = c..i-1,
// ascending: first over the rows of earlier blocks, then over the earlier rows of its own block. More rows only share
// the loads of S[k][c] and give independent chains.
#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/solve/solve.h"

namespace sdm::solve {

inline constexpr int kColumns = 64;  // a CTA; columns are independent

/// L[i0 + r][k] for the rows of a block, first_row <= k < i0 + kRows, as [k][kRows]; rows past the end are zero.
template <int kRows>
__device__ __forceinline__ void stage_rows(const float* a, const float* beta, int chunk, int i0, int first_row,
                                           float* panel) {
  float factor[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) factor[r] = i0 + r < chunk ? beta[i0 + r] : 0.0f;
  for (int k = first_row + static_cast<int>(threadIdx.x); k < min(i0 + kRows, chunk); k += kColumns) {
    float value[kRows];  // all rows' loads in flight before the first store
#pragma unroll
    for (int r = 0; r < kRows; ++r) value[r] = i0 + r < chunk ? a[(i0 + r) * chunk + k] : 0.0f;
#pragma unroll
    for (int r = 0; r < kRows; ++r) panel[k * kRows + r] = factor[r] * value[r];
  }
}

/// The block's rows of column c: folds over k < i0 from `history` (this column of S, stride kColumns, row c first),
/// then within the block. Leaves S[i0 + r][c] in s.
template <int kRows>
__device__ __forceinline__ void substitute(const float* panel, const float* history, int i0, int c, int first_row,
                                           float (&s)[kRows]) {
  float acc[kRows] = {};
#pragma unroll 4
  for (int k = c; k < i0; ++k) {
    const float earlier = history[(k - first_row) * kColumns];
#pragma unroll
    for (int r = 0; r < kRows; ++r) acc[r] = fma_rn(panel[k * kRows + r], earlier, acc[r]);
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int q = 0; q < r; ++q)
      if (i0 + q >= c) acc[r] = fma_rn(panel[(i0 + q) * kRows + r], s[q], acc[r]);
    s[r] = i0 + r > c ? device::negated(acc[r]) : (i0 + r == c ? 1.0f : 0.0f);
  }
}

/// grid: (chunk, block of columns), the longest columns first. Shared: two panels [C + kRows][kRows] (one is filled
/// while the other may still be read), then the history [C - first column][kColumns].
template <int kRows>
__global__ void __launch_bounds__(kColumns) substitution_kernel(const __grid_constant__ Params p) {
  device::wait_for_previous_grid();
  const int chunk = p.dims.chunk;
  const std::int64_t item = blockIdx.x % p.dims.chunks();
  const int c0 = static_cast<int>(blockIdx.x / p.dims.chunks()) * kColumns, c = c0 + static_cast<int>(threadIdx.x);
  const float* a = p.a + item * chunk * chunk;
  const float* beta = p.beta + item * chunk;
  float* s = p.s + item * chunk * chunk;
  const int panel_size = (chunk + kRows) * kRows;
  float* panels = reinterpret_cast<float*>(device::dynamic_shared());
  float* history = panels + 2 * panel_size + threadIdx.x;
  const int start = c0 / kRows * kRows;
  int buffer = 0;
  for (int i0 = start; i0 < chunk; i0 += kRows, buffer ^= 1) {
    float* panel = panels + buffer * panel_size;
    stage_rows<kRows>(a, beta, chunk, i0, start, panel);
    __syncthreads();
    if (c >= chunk) continue;
    float out[kRows];
    substitute<kRows>(panel, history, i0, c, c0, out);
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (i0 + r >= chunk) break;
      s[(i0 + r) * chunk + c] = out[r];
      if (i0 + r >= c0) history[(i0 + r - c0) * kColumns] = out[r];
    }
  }
}

template <int kRows>
device::LaunchShape shape_of(const Params& p) {
  const int chunk = p.dims.chunk;
  const std::size_t floats = static_cast<std::size_t>(2 * (chunk + kRows) * kRows) +
                             static_cast<std::size_t>(chunk) * static_cast<std::size_t>(kColumns);
  return {dim3(static_cast<unsigned>(p.dims.chunks() * device::ceil_div(chunk, kColumns))), kColumns, floats * 4};
}

template <int kRows>
std::string refuse_rows(const Params& p, const Device& device) {
  const std::size_t needed = shape_of<kRows>(p).shared_bytes;
  if (needed <= device.shared_memory_per_block) return "";
  return "solve needs " + std::to_string(needed) + " bytes of shared memory for chunk " + std::to_string(p.dims.chunk) +
         "; this device gives " + std::to_string(device.shared_memory_per_block) + " a CTA (a smaller chunk)";
}

template <int kRows>
void launch_rows(const Params& p, const LaunchContext& context) {
  device::launch(substitution_kernel<kRows>, shape_of<kRows>(p), context, p);
}

template <int kRows>
std::string describe_rows(const Params& p, const LaunchContext&) {
  return device::describe(shape_of<kRows>(p)) + ", " + std::to_string(kColumns) + " columns a CTA, " +
         std::to_string(kRows) + (kRows == 1 ? " row" : " rows") + " at a time";
}

}  // namespace sdm::solve
