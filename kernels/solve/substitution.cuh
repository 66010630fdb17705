#pragma once
// Forward substitution, a thread per column of S, kRows rows at a time. Each S[i][c] is one fold over k = c..i-1,
// ascending: first over the rows of earlier blocks, then over the earlier rows of its own block. More rows only share
// the loads of S[k][c] and give independent chains.
#include "kernels/common/async_copy.cuh"
#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/solve/solve.h"

namespace sdm::solve {

inline constexpr int kColumns = 64;  // a CTA; columns are independent

/// Starts copying A[i0 + r][k], first_row <= k < i0 + kRows, to [k][kRows]; rows past the end are zero.
template <int kRows>
__device__ __forceinline__ void fetch_panel(const float* a, int chunk, int i0, int first_row, float* panel) {
  for (int k = first_row + static_cast<int>(threadIdx.x); k < min(i0 + kRows, chunk); k += kColumns)
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      if (i0 + r < chunk)
        device::copy_async<4>(panel + k * kRows + r, a + (i0 + r) * chunk + k);
      else
        panel[k * kRows + r] = 0.0f;
    }
  device::commit_copies();
}

/// Makes L of it: each thread waits for what it copied itself and scales that. `beta`: shared, zeros up to a whole
/// block.
template <int kRows>
__device__ __forceinline__ void scale_panel(const float* beta, int chunk, int i0, int first_row, float* panel) {
  float factor[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) factor[r] = beta[i0 + r];
  device::wait_copies_but<0>();
  for (int k = first_row + static_cast<int>(threadIdx.x); k < min(i0 + kRows, chunk); k += kColumns)
#pragma unroll
    for (int r = 0; r < kRows; ++r) panel[k * kRows + r] = factor[r] * panel[k * kRows + r];
}

/// One k of a panel, in vectors where there are: scalar loads would bind the shared memory.
template <int kRows>
__device__ __forceinline__ void read_panel(const float* at, float (&l)[kRows]) {
  if constexpr (kRows % 4 == 0) {
#pragma unroll
    for (int r = 0; r < kRows; r += 4) {
      const float4 v = *reinterpret_cast<const float4*>(at + r);
      l[r] = v.x, l[r + 1] = v.y, l[r + 2] = v.z, l[r + 3] = v.w;
    }
  } else {
#pragma unroll
    for (int r = 0; r < kRows; ++r) l[r] = at[r];
  }
}

/// Folds k = from .. to-1 into the block's rows; all lanes of a warp take the same k, so that a panel is read once a warp.
/// kMasked: columns after k have no term yet.
template <int kRows, bool kMasked>
__device__ __forceinline__ void fold_history(const float* panel, const float* history, int from, int to, int c,
                                             int first_row, float (&acc)[kRows]) {
#pragma unroll 8
  for (int k = from; k < to; ++k) {
    const float earlier = history[(k - first_row) * kColumns];
    float l[kRows];
    read_panel<kRows>(panel + k * kRows, l);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
      if (!kMasked || k >= c) acc[r] = fma_rn(l[r], earlier, acc[r]);
  }
}

/// The block's rows of column c: folds over k < i0 from `history` (this column of S, stride kColumns, row first_row
/// first), then within the block. Leaves S[i0 + r][c] in s. `warp_column`: the first column of the warp.
template <int kRows>
__device__ __forceinline__ void substitute(const float* panel, const float* history, int i0, int c, int warp_column,
                                           int first_row, float (&s)[kRows]) {
  float acc[kRows] = {};
  const int all = min(warp_column + 32, i0);
  fold_history<kRows, true>(panel, history, warp_column, all, c, first_row, acc);
  fold_history<kRows, false>(panel, history, max(all, warp_column), i0, c, first_row, acc);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int q = 0; q < r; ++q)
      if (i0 + q >= c) acc[r] = fma_rn(panel[(i0 + q) * kRows + r], s[q], acc[r]);
    s[r] = i0 + r > c ? device::negated(acc[r]) : (i0 + r == c ? 1.0f : 0.0f);
  }
}

/// grid: (chunk, block of columns), the longest columns first. Shared: two panels [C + kRows][kRows] (the next one is
/// on its way while the other is used: without that, flagship waited for memory 32 times, 245 us on an H200), then the
/// history [C - first column][kColumns], then beta [C + kRows].
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
  float* shared_beta = panels + 2 * panel_size + chunk * kColumns;
  const int start = c0 / kRows * kRows;
  fetch_panel<kRows>(a, chunk, start, start, panels);
  for (int i = static_cast<int>(threadIdx.x); i < chunk + kRows; i += kColumns)
    shared_beta[i] = i < chunk ? beta[i] : 0.0f;
  __syncthreads();
  if (c < chunk)
    for (int i = 0; i < start; ++i) s[i * chunk + c] = 0.0f;
  int buffer = 0;
  for (int i0 = start; i0 < chunk; i0 += kRows, buffer ^= 1) {
    float* panel = panels + buffer * panel_size;
    scale_panel<kRows>(shared_beta, chunk, i0, start, panel);
    __syncthreads();  // also: everyone has left the other panel
    if (i0 + kRows < chunk) fetch_panel<kRows>(a, chunk, i0 + kRows, start, panels + (buffer ^ 1) * panel_size);
    if (c >= chunk) continue;
    float out[kRows];
    substitute<kRows>(panel, history, i0, c, c & ~31, c0, out);
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
  const std::size_t floats = static_cast<std::size_t>(2 * (chunk + kRows) * kRows + chunk + kRows) +
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
