#pragma once
// Pairs of a row's entries with the members of their groups, a warp at a time. Every cell of a row is one fold over the
// row's entries in ascending order. Pairs are listed in that order, 32 at a time, a lane each; lanes that meet in a
// cell take turns, the lowest first. Device code only.
#include "kernels/common/async_copy.cuh"
#include "kernels/common/entry_values.cuh"
#include "kernels/interactions/contract.h"
#include "kernels/interactions/interactions.h"

namespace sdm::interactions {

/// The sorted writes of a chunk. Payloads lie in shared memory where they fit; strengths and decays are few, or found
/// in L1.
struct Members {
  const Params& p;
  const std::uint32_t* payload;
  std::int64_t at;
  int valid;
};

/// An entry of a row, its values and its members: `count` of them from sorted position `first` on.
struct RowEntry {
  float x = 0.0f, log_x = 0.0f;
  int first = 0, count = 0;
};

/// An entry of one member in the warp's list, with the row that its pair goes to.
struct alignas(16) Listed {
  float x, log_x;
  int member, row;
};

/// Adds x's pair with the sorted position `member` to its cell of `row`. All lanes call it, at most one pair each.
__device__ __forceinline__ void add_pairs_of_lanes(const Members& members, bool active, float x, float log_x,
                                                   int member, float* row) {
  float factor = 0.0f, k = 0.0f;
  float* cell = nullptr;
  if (active) {
    const std::uint32_t payload = members.payload[member];
    const std::int64_t e = members.at + token_of(payload) * members.p.dims.writes + entry_of(payload);
    k = device::value_at(members.p.k, e);
    factor = pair_factor(x, log_x, members.p.log_k[e]);
    cell = row + token_of(payload);
  }
  // Shared addresses are below 2^31: lanes without a pair get keys of their own.
  const auto key = active ? static_cast<unsigned>(__cvta_generic_to_shared(cell))
                          : 0x80000000u + static_cast<unsigned>(device::lane_id());
  const unsigned peers = __match_any_sync(device::kWholeWarp, key);
  const int turn = __popc(peers & ((1u << device::lane_id()) - 1u));
  const int turns = __reduce_max_sync(device::kWholeWarp, turn);
  for (int t = 0; t <= turns; ++t) {
    if (active && turn == t) *cell = fma_rn(factor, k, *cell);
    __syncwarp();
  }
}

/// The pairs of 32 entries, one a lane, in the order of the lanes.
__device__ __forceinline__ void add_pairs(const Members& members, const RowEntry& mine, float* row) {
  if (!__any_sync(device::kWholeWarp, mine.count > 1)) {
    if (__any_sync(device::kWholeWarp, mine.count > 0))
      add_pairs_of_lanes(members, mine.count > 0, mine.x, mine.log_x, mine.first, row);
    return;
  }
  const int end = device::warp_inclusive_sum(mine.count), total = __shfl_sync(device::kWholeWarp, end, 31);
  for (int base = 0; base < total; base += 32) {
    const int pair = base + device::lane_id();
    int owner = 0;  // the first lane whose pairs end past this one
#pragma unroll
    for (int step = 16; step >= 1; step /= 2)
      if (__shfl_sync(device::kWholeWarp, end, owner + step - 1) <= pair) owner += step;
    const float x = __shfl_sync(device::kWholeWarp, mine.x, owner);
    const float log_x = __shfl_sync(device::kWholeWarp, mine.log_x, owner);
    const int member = __shfl_sync(device::kWholeWarp, mine.first - (end - mine.count), owner) + pair;
    add_pairs_of_lanes(members, pair < total, x, log_x, member, row);
  }
}

/// Members with token <= `token` of the group that begins at `first`. Tokens ascend and member m lies at distance m:
/// both fail for good past the end, so a binary search finds how many there are.
__device__ __forceinline__ int members_until(const Members& members, int first, int token) {
  const std::uint32_t* payload = members.payload + first;
  if (token_of(payload[0]) > token) return 0;
  if ((payload[0] & kLast) != 0) return 1;
  int known = 0, bound = min(token + 1, members.valid - first);  // tokens differ: member m has token >= m
  while (known + 1 < bound) {
    const int m = (known + 1 + bound) / 2;
    if (distance_of(payload[m]) == m && token_of(payload[m]) <= token)
      known = m;
    else
      bound = m;
  }
  return known + 1;
}

}  // namespace sdm::interactions
