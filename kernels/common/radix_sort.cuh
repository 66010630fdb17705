#pragma once
// A stable radix sort of one segment by one CTA, least significant digit first. Every warp owns a contiguous run of
// items and ranks them 32 at a time by matching digits across lanes, so that equal digits keep their order.
#include <cstdint>

#include "kernels/common/bucket_sort.cuh"

namespace sdm::device {

inline constexpr int kSortDigitBits = 8;
inline constexpr int kSortDigits = 1 << kSortDigitBits;

/// Keys travel with their entries: reads stay coalesced where the lists lie in global memory.
struct PairList {
  uint2* in;
  uint2* out;
  __device__ __forceinline__ SortItem get(int i) const { return {in[i].x, in[i].y}; }
  __device__ __forceinline__ void put(int i, const SortItem& item) const { out[i] = make_uint2(item.key, item.entry); }
  __device__ __forceinline__ void swap() {
    uint2* const was_in = in;
    in = out, out = was_in;
  }
};

/// Calls visit(item, digit, peers, active) for the warp's items in order; all lanes call it, inactive ones with digit
/// kSortDigits. `peers` are the lanes with the same digit.
template <typename Items, typename Visit>
__device__ __forceinline__ void for_warp_items(const Items& items, int begin, int end, int shift, Visit&& visit) {
  constexpr int kBatch = 4;  // loads in flight a lane
  for (int base = begin; base < end; base += 32 * kBatch) {
    SortItem item[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = base + 32 * b + lane_id();
      item[b] = i < end ? items.get(i) : SortItem{0, 0};
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const bool active = base + 32 * b + lane_id() < end;
      const std::uint32_t digit = active ? (item[b].key >> shift) % kSortDigits : kSortDigits;
      visit(item[b], digit, __match_any_sync(kWholeWarp, digit), active);
    }
  }
}

/// Turns counts [warps][kSortDigits] into where each warp's first item of a digit goes: digits ascending, within a
/// digit warps ascending. The CTA has at least kSortDigits threads.
__device__ __forceinline__ void digit_starts(std::uint32_t* counter, int warps) {
  __shared__ std::uint32_t warp_total[kSortDigits / 32];
  const int digit = static_cast<int>(threadIdx.x);
  std::uint32_t total = 0, inclusive = 0;
  if (digit < kSortDigits) {  // whole warps
    for (int w = 0; w < warps; ++w) total += counter[w * kSortDigits + digit];
    inclusive = warp_inclusive_sum(total);
    if (lane_id() == 31) warp_total[digit / 32] = inclusive;
  }
  __syncthreads();
  if (digit < kSortDigits) {
    std::uint32_t start = inclusive - total;
    for (int w = 0; w < digit / 32; ++w) start += warp_total[w];
    for (int w = 0; w < warps; ++w) {
      const std::uint32_t count = counter[w * kSortDigits + digit];
      counter[w * kSortDigits + digit] = start;
      start += count;
    }
  }
  __syncthreads();
}

/// One pass over `count` items by the digit at `shift`; leaves the result in items.in. All threads call it after a
/// barrier that made items.in visible. `counter`: shared, [warps][kSortDigits].
template <typename Items>
__device__ __forceinline__ void radix_pass(Items& items, int count, int shift, std::uint32_t* counter) {
  const int warps = static_cast<int>(blockDim.x / 32);
  const int run = (count + 32 * warps - 1) / (32 * warps) * 32;
  const int begin = min(warp_id() * run, count), end = min(begin + run, count);
  for (int i = static_cast<int>(threadIdx.x); i < warps * kSortDigits; i += static_cast<int>(blockDim.x))
    counter[i] = 0;
  __syncthreads();
  std::uint32_t* mine = counter + warp_id() * kSortDigits;
  for_warp_items(items, begin, end, shift, [&](const SortItem&, std::uint32_t digit, unsigned peers, bool active) {
    if (active && lane_id() == __ffs(static_cast<int>(peers)) - 1) mine[digit] += __popc(peers);
    __syncwarp();
  });
  __syncthreads();
  digit_starts(counter, warps);
  for_warp_items(items, begin, end, shift, [&](const SortItem& item, std::uint32_t digit, unsigned peers, bool active) {
    const int leader = __ffs(static_cast<int>(peers)) - 1;
    std::uint32_t start = 0;
    if (active && lane_id() == leader) {
      start = mine[digit];
      mine[digit] = start + __popc(peers);
    }
    start = __shfl_sync(kWholeWarp, start, leader);
    const unsigned before = peers & ((1u << lane_id()) - 1u);
    if (active) items.put(static_cast<int>(start) + __popc(before), item);
    __syncwarp();
  });
  __syncthreads();
  items.swap();
}

/// Sorts by keys below `key_bound`; as many passes as its bits need.
template <typename Items>
__device__ __forceinline__ void radix_sort(Items& items, int count, std::int64_t key_bound, std::uint32_t* counter) {
  for (int shift = 0; shift < 32 && (key_bound - 1) >> shift > 0; shift += kSortDigitBits)
    radix_pass(items, count, shift, counter);
}

}  // namespace sdm::device
