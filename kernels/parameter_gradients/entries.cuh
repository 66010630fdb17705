#pragma once
// Gradients by entry: strengths and decay sums, and the gates of entries that need nothing of others (orders:
// contract.h). Device only.
#include "kernels/common/launch.h"
#include "kernels/parameter_gradients/walks.cuh"

namespace sdm::parameter_gradients {

/// kCount neighbouring values.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Pack {
  T v[kCount];
};
template <int kCount, typename T>
__device__ __forceinline__ Pack<T, kCount> pack_at(const T* p, std::int64_t i) {
  return *reinterpret_cast<const Pack<T, kCount>*>(p + i);
}
template <int kCount>
__device__ __forceinline__ void set_pack(float* p, std::int64_t i, const Pack<float, kCount>& x) {
  *reinterpret_cast<Pack<float, kCount>*>(p + i) = x;
}
/// Strengths, f32 or bf16.
template <int kCount>
__device__ __forceinline__ Pack<float, kCount> values_at(AnyPtr p, std::int64_t i) {
  if (p.dtype == DType::f32) return pack_at<kCount>(static_cast<const float*>(p.data), i);
  const auto narrow = pack_at<kCount>(static_cast<const bf16_t*>(p.data), i);
  Pack<float, kCount> wide;
#pragma unroll
  for (int n = 0; n < kCount; ++n) wide.v[n] = from_bf16(narrow.v[n]);
  return wide;
}

inline constexpr int kEntryThreads = 128, kEntriesOfCta = 512;

/// Entries of a CTA that need a walk.
struct WalkList {
  int count;
  std::uint16_t entry[kEntriesOfCta];  ///< from the first one of the CTA on
};

/// Left in d_gate by a write whose gate gradient needs others' sums. No sum gives this NaN.
inline constexpr std::uint32_t kGateToCome = 0xffffffffu;

/// Appends the marked ones of every lane's kCount entries. Their order does not matter.
template <int kCount>
__device__ __forceinline__ void append(WalkList& list, int first, const bool (&marked)[kCount]) {
  unsigned votes[kCount];
  int total = 0, base = 0;
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    votes[n] = __ballot_sync(device::kWholeWarp, marked[n]);
    total += __popc(votes[n]);
  }
  if (total == 0) return;
  if (device::lane_id() == 0) base = atomicAdd(&list.count, total);
  base = __shfl_sync(device::kWholeWarp, base, 0);
#pragma unroll
  for (int n = 0; n < kCount; ++n) {
    if (marked[n])
      list.entry[base + __popc(votes[n] & ((1u << device::lane_id()) - 1u))] = static_cast<std::uint16_t>(first + n);
    base += __popc(votes[n]);
  }
}

/// Reads first .. first + kCount - 1 as if they had no match; `walks`: which have one.
template <int kCount>
__device__ __forceinline__ void plain_reads(const ChunkWalk& w, int first, bool (&walks)[kCount]) {
  const Params& p = w.p;
  const int valid = p.dims.valid_tokens_of_chunk(w.chunk) * p.dims.reads;
  const std::int64_t at = w.read_at(), e = at + first;
  const auto position = pack_at<kCount>(p.reads.position, e);
  const auto q = values_at<kCount>(p.q, e);
  const auto log_q = pack_at<kCount>(p.log_q, e), d_qw = pack_at<kCount>(p.d_qw, e);
  Pack<float, kCount> d_q, d_log_q;
#pragma unroll
  for (int i = 0; i < kCount; ++i) walks[i] = first + i < valid && p.reads.match[at + position.v[i]] >= 0;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const ReadGradients g = read_gradients(q.v[i], log_q.v[i], d_qw.v[i], 0.0f);
    d_q.v[i] = first + i < valid ? g.d_q : 0.0f;
    d_log_q.v[i] = first + i < valid ? g.d_log_q : 0.0f;
  }
  set_pack(p.d_q, e, d_q);
  set_pack(p.d_log_q, e, d_log_q);
}

/// Writes first .. first + kCount - 1 as if they were alone in their groups and not read; `walks`: which are not.
template <int kCount>
__device__ __forceinline__ void plain_writes(const ChunkWalk& w, int first, bool (&walks)[kCount]) {
  const Params& p = w.p;
  const int valid = p.dims.valid_tokens_of_chunk(w.chunk) * p.dims.writes;
  const std::int64_t at = w.write_at(), e = at + first;
  const auto position = pack_at<kCount>(p.writes.position, e);
  const auto k = values_at<kCount>(p.k, e);
  const auto log_k = pack_at<kCount>(p.log_k, e), rex = pack_at<kCount>(p.rex, e);
  const auto d_kw = pack_at<kCount>(p.d_kw, e), d_ww = pack_at<kCount>(p.d_ww, e);
  const auto d_decay = pack_at<kCount>(p.d_decay, e);
  Pack<float, kCount> d_k, d_log_k, d_rex, d_gate;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    walks[i] = false;
    if (first + i >= valid) continue;
    constexpr std::uint32_t kAlone = kFirst | kLast;
    const std::int64_t sorted = at + position.v[i];
    walks[i] = (p.writes.payload[sorted] & kAlone) != kAlone || p.writes.match[sorted] >= 0;
  }
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const bool is_valid = first + i < valid;
    const WriteGradients g = write_gradients(k.v[i], log_k.v[i], rex.v[i], d_kw.v[i], d_ww.v[i], {});
    d_k.v[i] = is_valid ? g.d_k : 0.0f;
    d_log_k.v[i] = is_valid ? g.d_log_k : 0.0f;
    d_rex.v[i] = is_valid ? g.d_rex : 0.0f;
    d_gate.v[i] = is_valid ? ((d_decay.v[i] + (0.0f + g.d_log_k)) + 0.0f) + 0.0f : 0.0f;
    if (walks[i]) d_gate.v[i] = float_of(kGateToCome);
  }
  set_pack(p.d_k, e, d_k);
  set_pack(p.d_log_k, e, d_log_k);
  set_pack(p.d_rex, e, d_rex);
  set_pack(p.d_gate, e, d_gate);
}

/// grid: (chunk, side, part of its entries). Most entries are alone in their groups and have no match: these are done
/// kCount a thread, and the others listed, so that their walks fill whole warps. Few chunks are worked on at a time:
/// with all of them in flight, a CTA each, which is more than L2 holds, flagship took 730 to 900 us on an H200 for this
/// and the gates, in place of 453.
template <int kCount>
__global__ void __launch_bounds__(kEntryThreads, 8) entries_kernel(const __grid_constant__ Params p, int parts) {
  __shared__ WalkList list;
  const auto split = static_cast<unsigned>(parts);
  const bool is_write = blockIdx.x / split % 2 == 0;
  const ChunkWalk w{p, blockIdx.x / (2 * split)};
  const int begin = static_cast<int>(blockIdx.x % split) * kEntriesOfCta, thread = static_cast<int>(threadIdx.x);
  const int end = min(begin + kEntriesOfCta, is_write ? p.dims.write_positions() : p.dims.read_positions());
  if (thread == 0) list.count = 0;
  device::wait_for_previous_grid();
  __syncthreads();
  for (int base = begin; base < end; base += kCount * kEntryThreads) {
    const int first = base + kCount * thread;
    bool walks[kCount] = {};
    if (first < end) {
      if (is_write)
        plain_writes<kCount>(w, first, walks);
      else
        plain_reads<kCount>(w, first, walks);
    }
    append<kCount>(list, first - begin, walks);
  }
  __syncthreads();
  for (int i = thread; i < list.count; i += kEntryThreads) {
    if (is_write)
      write_entry(w, begin + list.entry[i]);
    else
      read_entry(w, begin + list.entry[i]);
  }
}

}  // namespace sdm::parameter_gradients
