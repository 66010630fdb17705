#pragma once
// The sums of group_scan: log_k, rex and log_q. Every entry of a short group walks by itself; a long group is walked by
// one warp, which stores for all members. Device code only.
#include "kernels/common/async_copy.cuh"
#include "kernels/decay_sums/entries.cuh"
#include "kernels/decay_sums/fours.cuh"

namespace sdm::decay_sums {

inline constexpr std::uint32_t kAlone = kFirst | kLast;  // of a group of one

inline constexpr int kShort = 16;       ///< members of a group that its entries walk by themselves
inline constexpr int kLastToken = 255;  ///< of any chunk

/// The writes of a chunk: sorted payloads (shared or global memory) and gates.
struct WriteGroups {
  const std::uint32_t* payload;
  const float* gates;
  int entries, valid;  ///< entries of a token, valid positions
  bool by_token;

  __device__ __forceinline__ WriteGroups(const Params& p, std::int64_t chunk)
      : payload(p.writes.payload + chunk * p.dims.write_positions()),
        gates(p.g + chunk * (p.gate == Gate::token ? p.dims.chunk : p.dims.write_positions())),
        entries(p.dims.writes),
        valid(p.dims.valid_tokens_of_chunk(chunk) * p.dims.writes),
        by_token(p.gate == Gate::token) {}
  __device__ __forceinline__ float gate(std::uint32_t member) const {
    return gates[by_token ? token_of(member) : entry_at(member, entries)];
  }
  /// Position i, whose payload is `member`, lies in a group of more than kShort.
  __device__ __forceinline__ bool is_long(int i, std::uint32_t member) const {
    const int distance = distance_of(member), beyond = i - distance + kShort;
    return distance >= kShort || (beyond < valid && distance_of(payload[beyond]) == kShort);
  }
  __device__ __forceinline__ int last(int i, std::uint32_t member) const {
    while ((member & kLast) == 0) member = payload[++i];
    return i;
  }
  /// The last member with token <= `token` of the group that begins at `first`, by halves.
  __device__ __forceinline__ std::uint32_t member_until(int first, int token) const {
    return last_member(payload + first, token, valid - first);
  }
  /// The payload of the LAST of position i's group.
  __device__ __forceinline__ std::uint32_t last_payload(int i, std::uint32_t member) const {
    const int first = i - distance_of(member);
    while ((member & kLast) == 0) {
      if (distance_of(member) >= kShort) return member_until(first, kLastToken);
      member = payload[++i];
    }
    return member;
  }
  /// log_k of position i, whose payload is `own`: the fold of the gates from the FIRST on.
  __device__ __forceinline__ float log_k(int i, std::uint32_t own) const {
    int m = i - distance_of(own);
    float sum = gate(payload[m]);
    while (m < i) sum = sum + gate(payload[++m]);
    return sum;
  }
  /// rex: the fold of the gates behind position i, from the LAST on.
  __device__ __forceinline__ float rex(int i, std::uint32_t own) const {
    float sum = 0.0f;
    for (int m = last(i, own); m > i; --m) sum = sum + gate(payload[m]);
    return sum;
  }
  /// log_k of the last member with token <= `token` of the group that begins at `first`; 0 where there is none.
  __device__ __forceinline__ float log_until(int first, int token) const {
    std::uint32_t member = payload[first];
    if (token_of(member) > token) return 0.0f;
    float sum = gate(member);
    while ((member & kLast) == 0) {
      member = payload[++first];
      if (token_of(member) > token) break;
      sum = sum + gate(member);
    }
    return sum;
  }
  /// The same, where `log_k` holds those of a long group's members by entry.
  __device__ __forceinline__ float log_until(int first, int token, const float* log_k) const {
    const std::uint32_t member = payload[first];
    if (!is_long(first, member)) return log_until(first, token);
    return token_of(member) > token ? 0.0f : log_k[entry_at(member_until(first, token), entries)];
  }
};

/// log_k (upwards from the FIRST) or rex (downwards from the LAST) of a long group by a warp, 32 members at a time: a
/// lane adds, one after the other, the gates that its member wants.
template <bool kUpwards>
__device__ __forceinline__ void long_fold(const WriteGroups& groups, int first, int last, float* out) {
  float before = kUpwards ? -0.0f : 0.0f;  // -0 + x is x, whatever x
  for (int done = 0; done <= last - first; done += 32) {
    const int m = done + device::lane_id();
    const bool inside = m <= last - first;
    const std::uint32_t member = inside ? groups.payload[kUpwards ? first + m : last - m] : 0;
    const float own = inside ? groups.gate(member) : 0.0f;
    float sum = before;
#pragma unroll
    for (int lane = 0; lane < 32; ++lane) {
      const float gate = __shfl_sync(device::kWholeWarp, own, lane);
      if (device::lane_id() > lane - (kUpwards ? 1 : 0)) sum = sum + gate;
    }
    if (inside) out[entry_at(member, groups.entries)] = store_element<float>(sum);
    before = __shfl_sync(device::kWholeWarp, kUpwards ? sum : sum + own, 31);
  }
}

/// Sums of all long groups of the chunk, by entry; called by the whole CTA, which may read them afterwards. False:
/// there are none. Every long group has a multiple of kShort among the positions of its first kShort members. CTAs that
/// share a chunk each do this for themselves and store the same bits. Without it each of 256 members took 256 steps
/// (flagship with 128 slots hit on an H200: 9.2 ms).
__device__ __forceinline__ bool fold_long_groups(const WriteGroups& groups, float* log_k, float* rex) {
  bool any = false;
  const int threads = static_cast<int>(blockDim.x), count = (groups.valid + kShort - 1) / kShort;
#pragma unroll 1
  for (int base = 0; base < count; base += threads) {
    const int v = base + static_cast<int>(threadIdx.x), i = v * kShort;
    const std::uint32_t member = v < count ? groups.payload[i] : 0;
    const int own = i - distance_of(member);
    const bool begins = v < count && distance_of(member) < kShort && groups.is_long(i, member);
    for (unsigned left = __ballot_sync(device::kWholeWarp, begins); left != 0; left &= left - 1, any = true) {
      const int first = __shfl_sync(device::kWholeWarp, own, __ffs(static_cast<int>(left)) - 1);
      const int last = first + distance_of(groups.member_until(first, kLastToken));
      long_fold<true>(groups, first, last, log_k);
      long_fold<false>(groups, first, last, rex);
    }
  }
  return __syncthreads_or(any) != 0;
}

/// store_four without the entries whose bit is set in `but`.
__device__ __forceinline__ void store_four_but(unsigned but, float* at, int i, int count, const float4& value) {
  if (but == 0) return store_four(at, i, count, count % 4 == 0, value);
  const float x[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
  for (int j = 0; j < 4; ++j)
    if ((but >> j & 1u) == 0 && i + j < count) at[i + j] = store_element<float>(x[j]);
}

inline constexpr int kSumsThreads = 1024;
inline constexpr std::uint16_t kNoMatch = 0xffff;

__device__ __forceinline__ int4 load_four_ints(const std::int32_t* at, int i, int count) {
  if (count % 4 == 0) return *reinterpret_cast<const int4*>(at + i);
  const auto one = [&](int j) { return i + j < count ? at[i + j] : 0; };
  return make_int4(one(0), one(1), one(2), one(3));
}

/// use(first entry, positions) for entries begin .. end - 1 of a side, four a thread. `position`: of the side's
/// `count`.
template <typename Use>
__device__ __forceinline__ void for_fours(const std::int32_t* position, int begin, int end, int count, Use&& use) {
  device::in_batches<2>(
      begin / 4 + static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), (end + 3) / 4,
      [&](int v) { return load_four_ints(position, 4 * v, count); },
      [&](int v, const int4& four) { use(4 * v, four); });
}

/// Payloads of the chunk's writes and matches of its reads (16 bits) to shared memory.
__device__ __forceinline__ void stage_chunk(const std::uint32_t* payload, int writes, const std::int32_t* match,
                                            int reads, std::uint32_t* payloads, std::uint16_t* matches) {
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  if (writes % 4 == 0)
    for (int i = 4 * thread; i < writes; i += 4 * threads) device::copy_async<16>(payloads + i, payload + i);
  else
    for (int i = thread; i < writes; i += threads) device::copy_async<4>(payloads + i, payload + i);
  device::commit_copies();
  device::in_batches<2>(
      thread, threads, (reads + 3) / 4, [&](int v) { return load_four_ints(match, 4 * v, reads); },
      [&](int v, const int4& first) {
        const auto pair = [](int low, int high) {
          return static_cast<unsigned>(low & 0xffff) | static_cast<unsigned>(high) << 16;
        };
        *reinterpret_cast<uint2*>(matches + 4 * v) = make_uint2(pair(first.x, first.y), pair(first.z, first.w));
      });
  device::wait_copies_but<0>();
  __syncthreads();
}

/// grid: chunks * blocks, `tile` entries of both sides a CTA. Shared (kStaged): see stage_chunk.
template <bool kStaged>
__global__ void __launch_bounds__(kSumsThreads, 1) sums_kernel(const __grid_constant__ Params p, int blocks, int tile) {
  device::wait_for_previous_grid();
  const std::int64_t chunk = blockIdx.x / static_cast<unsigned>(blocks);
  const int begin = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks)) * tile;
  const int n = p.dims.write_positions(), m = p.dims.read_positions();
  const std::int64_t write_at = chunk * n, read_at = chunk * m;
  const int read_valid = p.dims.valid_tokens_of_chunk(chunk) * p.dims.reads;
  WriteGroups groups(p, chunk);
  const std::int32_t* match = p.reads.match + read_at;
  auto* payloads = reinterpret_cast<std::uint32_t*>(device::dynamic_shared());
  auto* matches = reinterpret_cast<std::uint16_t*>(payloads + (n + 3) / 4 * 4);
  if constexpr (kStaged) {
    stage_chunk(groups.payload, n, match, m, payloads, matches);
    groups.payload = payloads;
  }
  const bool any_long = fold_long_groups(groups, p.log_k + write_at, p.rex + write_at);
  for_fours(p.writes.position + write_at, begin, min(begin + tile, n), n, [&](int e, const int4& four) {
    const int position[4] = {four.x, four.y, four.z, four.w};
    float log_k[4] = {}, rex[4] = {};
    unsigned stored = 0;  // by the warp of a long group
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (e + j >= groups.valid) continue;
      const std::uint32_t payload = groups.payload[position[j]];
      log_k[j] = groups.gate(payload);
      if ((payload & kAlone) == kAlone) continue;
      if (any_long && groups.is_long(position[j], payload)) {
        stored |= 1u << j;
        continue;
      }
      log_k[j] = groups.log_k(position[j], payload);
      rex[j] = groups.rex(position[j], payload);
    }
    store_four_but(stored, p.log_k + write_at, e, n, make_float4(log_k[0], log_k[1], log_k[2], log_k[3]));
    store_four_but(stored, p.rex + write_at, e, n, make_float4(rex[0], rex[1], rex[2], rex[3]));
  });
  const device::Divider by_token(p.dims.reads);
  for_fours(p.reads.position + read_at, begin, min(begin + tile, m), m, [&](int e, const int4& four) {
    const int position[4] = {four.x, four.y, four.z, four.w};
    float log_q[4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (e + j >= read_valid) continue;
      int first = kStaged ? matches[position[j]] : match[position[j]];
      if (kStaged && first == kNoMatch) first = -1;
      if (first < 0) continue;
      const int token = by_token.quotient(e + j);
      log_q[j] = any_long ? groups.log_until(first, token, p.log_k + write_at) : groups.log_until(first, token);
    }
    store_four(p.log_q + read_at, e, m, m % 4 == 0, make_float4(log_q[0], log_q[1], log_q[2], log_q[3]));
  });
}

}  // namespace sdm::decay_sums
