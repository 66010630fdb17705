#pragma once
// Gradients by entry: strengths, decay sums and gates (orders: contract.h). A thread per entry, in entry order, so that
// inputs and outputs are coalesced; only members of longer groups and matched entries walk. Device only.
#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/parameter_gradients/contract.h"
#include "kernels/parameter_gradients/parameter_gradients.h"

namespace sdm::parameter_gradients {

inline constexpr int kEntryThreads = 256;

/// A member of a group, found by its sorted position.
struct Member {
  std::int64_t at;  // in [N, C, entries]
  int token;
  bool last;
};

/// One chunk as the walks see it.
struct ChunkWalk {
  const Params& p;
  std::int64_t chunk;

  __device__ __forceinline__ std::int64_t write_at() const { return chunk * p.dims.write_positions(); }
  __device__ __forceinline__ std::int64_t read_at() const { return chunk * p.dims.read_positions(); }
  __device__ __forceinline__ Member write(int position) const {
    return member(p.writes.payload, write_at(), p.dims.writes, position);
  }
  __device__ __forceinline__ Member read(int position) const {
    return member(p.reads.payload, read_at(), p.dims.reads, position);
  }
  __device__ static __forceinline__ Member member(const std::uint32_t* payloads, std::int64_t at, int entries,
                                                  int position) {
    const std::uint32_t payload = payloads[at + position];
    return {at + token_of(payload) * entries + entry_of(payload), token_of(payload), (payload & kLast) != 0};
  }
  __device__ __forceinline__ float d_a_of(int later, int earlier) const {
    const std::int64_t row = chunk * p.dims.chunk + later;
    return d_a(p.beta[row], p.dm[row * p.dims.chunk + earlier]);
  }
  __device__ __forceinline__ float d_qk_of(int later, int earlier) const {
    return p.dqk[(chunk * p.dims.chunk + later) * p.dims.chunk + earlier];
  }
};

__device__ __forceinline__ WriteSums sums_of(const ChunkWalk& w, const Member& e, int position, int distance,
                                             float log_e) {
  const Params& p = w.p;
  WriteSums s;
  for (int i = position - distance; i < position; ++i) {
    const Member j = w.write(i);
    s.row = add_pair(w.d_a_of(e.token, j.token), device::value_at(p.k, j.at), log_e, p.log_k[j.at], s.row);
  }
  for (bool more = !e.last; more;) {
    const Member later = w.write(++position);
    s.col = add_pair(w.d_a_of(later.token, e.token), device::value_at(p.k, later.at), p.log_k[later.at], log_e, s.col);
    more = !later.last;
  }
  return s;
}

/// Reads of the slot at the write's token or later.
__device__ __forceinline__ float read_sum_of(const ChunkWalk& w, const Member& e, int match, float log_e) {
  const Params& p = w.p;
  float sum = 0.0f;
  for (bool more = match >= 0; more; ++match) {
    const Member r = w.read(match);
    if (r.token >= e.token)
      sum = add_pair(w.d_qk_of(r.token, e.token), device::value_at(p.q, r.at), p.log_q[r.at], log_e, sum);
    more = !r.last;
  }
  return sum;
}

__device__ __forceinline__ void write_entry(const ChunkWalk& w, int entry) {
  const Params& p = w.p;
  const std::int64_t at = w.write_at(), e = at + entry;
  if (entry >= p.dims.valid_tokens_of_chunk(w.chunk) * p.dims.writes) {
    p.d_k[e] = p.d_log_k[e] = p.d_rex[e] = 0.0f;
    return;
  }
  const int position = p.writes.position[e];
  const float log_e = p.log_k[e];
  const std::uint32_t payload = p.writes.payload[at + position];
  const Member self{e, token_of(payload), (payload & kLast) != 0};
  WriteSums sums = sums_of(w, self, position, distance_of(payload), log_e);
  sums.read = read_sum_of(w, self, p.writes.match[at + position], log_e);
  const WriteGradients g = write_gradients(device::value_at(p.k, e), log_e, p.rex[e], p.d_kw[e], p.d_ww[e], sums);
  p.d_k[e] = g.d_k;
  p.d_log_k[e] = g.d_log_k;
  p.d_rex[e] = g.d_rex;
}

__device__ __forceinline__ void read_entry(const ChunkWalk& w, int entry) {
  const Params& p = w.p;
  const std::int64_t at = w.read_at(), e = at + entry;
  if (entry >= p.dims.valid_tokens_of_chunk(w.chunk) * p.dims.reads) {
    p.d_q[e] = p.d_log_q[e] = 0.0f;
    return;
  }
  const int token = entry / p.dims.reads;
  const float log_q = p.log_q[e];
  float rd = 0.0f;
  int match = p.reads.match[at + p.reads.position[e]];
  for (bool more = match >= 0; more; ++match) {
    const Member j = w.write(match);
    if (j.token > token) break;  // tokens ascend: all later ones are past it too
    rd = add_pair(w.d_qk_of(token, j.token), device::value_at(p.k, j.at), log_q, p.log_k[j.at], rd);
    more = !j.last;
  }
  const ReadGradients g = read_gradients(device::value_at(p.q, e), log_q, p.d_qw[e], rd);
  p.d_q[e] = g.d_q;
  p.d_log_q[e] = g.d_log_q;
}

/// grid: (chunk, part of its entries) x side.
template <int kUnused = 0>
__global__ void __launch_bounds__(kEntryThreads) entries_kernel(const __grid_constant__ Params p, int parts) {
  device::wait_for_previous_grid();
  const ChunkWalk w{p, blockIdx.x / static_cast<unsigned>(parts)};
  const int part = static_cast<int>(blockIdx.x % static_cast<unsigned>(parts));
  const int entry = part * kEntryThreads + static_cast<int>(threadIdx.x);
  if (blockIdx.y == 0) {
    if (entry < p.dims.write_positions()) write_entry(w, entry);
  } else {
    if (entry < p.dims.read_positions()) read_entry(w, entry);
  }
}

/// The gate gradients of one group, by the thread of its first entry. The earlier members' sum runs forwards and waits
/// in d_gate; the later members' and the reads' sums run backwards.
__device__ __forceinline__ void group_gates(const ChunkWalk& w, int begin) {
  const Params& p = w.p;
  float earlier = 0.0f;
  int last = begin;
  for (bool more = true; more; ++last) {
    const Member m = w.write(last);
    p.d_gate[m.at] = earlier;
    earlier = earlier + p.d_rex[m.at];
    more = !m.last;
  }
  --last;
  const int first_read = p.writes.match[w.write_at() + begin];
  int read = first_read;
  if (first_read >= 0)
    while (!w.read(read).last) ++read;
  float later = 0.0f, read_sum = 0.0f;
  for (int i = last; i >= begin; --i) {
    const Member m = w.write(i);
    later = later + p.d_log_k[m.at];
    for (; first_read >= 0 && read >= first_read; --read) {
      const Member r = w.read(read);
      if (r.token < m.token) break;
      read_sum = read_sum + p.d_log_q[r.at];
    }
    p.d_gate[m.at] = ((p.d_decay[m.at] + later) + p.d_gate[m.at]) + read_sum;
  }
}

template <int kUnused = 0>
__global__ void __launch_bounds__(kEntryThreads) gates_kernel(const __grid_constant__ Params p, int parts) {
  device::wait_for_previous_grid();
  const ChunkWalk w{p, blockIdx.x / static_cast<unsigned>(parts)};
  const int entry =
      static_cast<int>(blockIdx.x % static_cast<unsigned>(parts)) * kEntryThreads + static_cast<int>(threadIdx.x);
  if (entry >= p.dims.write_positions()) return;
  const std::int64_t at = w.write_at(), e = at + entry;
  if (entry >= p.dims.valid_tokens_of_chunk(w.chunk) * p.dims.writes) {
    p.d_gate[e] = 0.0f;
    return;
  }
  const int position = p.writes.position[e];
  if (p.writes.payload[at + position] & kFirst) group_gates(w, position);
}

inline constexpr int kScalarRows = 128;

/// A scalar gate: the sum over a token's entries, ascending. Rows pass through shared memory so that loads are
/// coalesced.
template <int kUnused = 0>
__global__ void __launch_bounds__(kScalarRows) scalar_gate_kernel(const __grid_constant__ Params p) {
  __shared__ float tile[kScalarRows][33];
  device::wait_for_previous_grid();
  const int entries = p.dims.writes, lane = device::lane_id();
  const std::int64_t rows = p.dims.chunks() * p.dims.chunk, row0 = std::int64_t{blockIdx.x} * kScalarRows;
  float sum = 0.0f;
  for (int n0 = 0; n0 < entries; n0 += 32) {
    for (int r = device::warp_id(); r < kScalarRows; r += kScalarRows / 32)
      if (row0 + r < rows && n0 + lane < entries) tile[r][lane] = p.d_gate[(row0 + r) * entries + n0 + lane];
    __syncthreads();
    if (row0 + threadIdx.x < rows)
      for (int n = 0; n < min(32, entries - n0); ++n) sum = sum + tile[threadIdx.x][n];
    __syncthreads();
  }
  if (row0 + threadIdx.x < rows) p.d_g[row0 + threadIdx.x] = sum;
}

}  // namespace sdm::parameter_gradients
