#pragma once
// Gradients by token that need those by entry or the dots: gates, and the rest of d_beta (orders: contract.h). Device
// only.
#include "kernels/parameter_gradients/entries.cuh"

namespace sdm::parameter_gradients {

/// The gates of some tokens, a row of an odd number of floats each.
struct GateRows {
  WalkList list;
  float row[kEntriesOfCta + kEntriesOfCta];
};
/// Tokens of a CTA.
SDM_HD int gate_tokens(const Dims& d) { return d.writes < kEntriesOfCta ? kEntriesOfCta / d.writes : 1; }

/// The second half of d_beta: row t of A and dm below the diagonal, by a warp.
__device__ __forceinline__ void add_pairs_of_token(const Params& p, std::int64_t chunk, int t) {
  const int c = p.dims.chunk, lane = device::lane_id();
  const std::int64_t row = chunk * c + t;
  const float* a = p.a + row * c;
  const float* dm = p.dm + row * c;
  const float dot = p.d_beta[row];
  float pairs = 0.0f;
#pragma unroll 4
  for (int j = lane; j < t; j += 32) pairs = fma_rn(a[j], dm[j], pairs);
  pairs = device::tree_sum_far_first(pairs);
  if (lane == 0) p.d_beta[row] = dot + pairs;
}

/// grid: (chunk, some of its tokens). The gates that had to wait; a scalar gate, the sum over a token's entries,
/// ascending; and the rest of d_beta.
template <int kUnused = 0>
__global__ void __launch_bounds__(kEntryThreads, 8) gates_kernel(const __grid_constant__ Params p, int parts) {
  __shared__ GateRows shared;
  const ChunkWalk w{p, blockIdx.x / static_cast<unsigned>(parts)};
  const int tokens = gate_tokens(p.dims), first = static_cast<int>(blockIdx.x % static_cast<unsigned>(parts)) * tokens;
  const int count = min(tokens, p.dims.chunk - first), writes = p.dims.writes, stride = writes | 1;
  const int thread = static_cast<int>(threadIdx.x), begin = first * writes, entries = count * writes;
  if (thread == 0) shared.list.count = 0;
  device::wait_for_previous_grid();
  __syncthreads();
  float* d_gate = p.d_gate + w.write_at() + begin;
  for (int base = 0; base < entries; base += 4 * kEntryThreads) {
    float gate[4];
    bool waits[4] = {};
#pragma unroll
    for (int b = 0; b < 4; ++b)
      if (const int i = base + b * kEntryThreads + thread; i < entries) gate[b] = d_gate[i];
#pragma unroll
    for (int b = 0; b < 4; ++b) {
      const int i = base + b * kEntryThreads + thread;
      if (i < entries) {
        waits[b] = bits_of(gate[b]) == kGateToCome;
        shared.row[i / writes * stride + i % writes] = gate[b];
      }
      const bool one[1] = {waits[b]};
      append<1>(shared.list, i, one);
    }
  }
  for (int t = first + device::warp_id(); t < first + count; t += kEntryThreads / 32) add_pairs_of_token(p, w.chunk, t);
  __syncthreads();
  for (int n = thread; n < shared.list.count; n += kEntryThreads) {
    const int i = shared.list.entry[n];
    const float gate = write_gate(w, begin + i);
    shared.row[i / writes * stride + i % writes] = gate;
    d_gate[i] = gate;
  }
  if (p.gate != Gate::token) return;
  __syncthreads();
  for (int t = thread; t < count; t += kEntryThreads) {
    float sum = 0.0f;
    for (int n = 0; n < writes; ++n) sum = sum + shared.row[t * stride + n];
    p.d_g[w.chunk * p.dims.chunk + first + t] = sum;
  }
}

}  // namespace sdm::parameter_gradients
