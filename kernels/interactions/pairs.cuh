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
  const std::uint16_t* match;  ///< of the chunk's reads, in shared memory (kNoMatch: none); null where they do not fit
  std::int64_t at;
  int valid;
};

inline constexpr int kNoMatch = 0xffff;

/// A row of A and of QK in the making, and where its token's entries begin.
struct PairRow {
  std::int64_t write_at, read_at;
  float *a, *qk;  ///< shared, [C] each
};

/// An entry's members: `count` of them from sorted position `first` on.
struct EntryMembers {
  int first = 0, count = 0;
};

/// One pair: an entry of the row's token and the sorted position of a member.
struct Pair {
  int entry;  ///< of the writes, or kOfReads + entry of the reads
  int member;
};
inline constexpr int kOfReads = 1 << 16;

/// Adds a pair a lane to its cell; all lanes call it. All loads of a pair are independent of each other but for the
/// payload.
__device__ __forceinline__ void add_pairs_of_lanes(const Members& members, const PairRow& row, bool active,
                                                   const Pair& pair) {
  const Params& p = members.p;
  float factor = 0.0f, k = 0.0f;
  float* cell = nullptr;
  if (active) {
    const bool of_reads = pair.entry >= kOfReads;
    const std::int64_t own = of_reads ? row.read_at + (pair.entry - kOfReads) : row.write_at + pair.entry;
    const std::uint32_t payload = members.payload[pair.member];
    const std::int64_t e = members.at + token_of(payload) * p.dims.writes + entry_of(payload);
    const float x = device::value_at(of_reads ? p.q : p.k, own), log_x = (of_reads ? p.log_q : p.log_k)[own];
    k = device::value_at(p.k, e);
    factor = pair_factor(x, log_x, p.log_k[e]);
    cell = (of_reads ? row.qk : row.a) + token_of(payload);
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

/// The pairs of 32 entries, one a lane, in the order of the lanes; `entry`: the lane's, as in a Pair.
__device__ __forceinline__ void add_pairs(const Members& members, const PairRow& row, const EntryMembers& mine,
                                          int entry) {
  const int end = device::warp_inclusive_sum(mine.count), total = __shfl_sync(device::kWholeWarp, end, 31);
  for (int base = 0; base < total; base += 32) {
    const int pair = base + device::lane_id();
    int owner = 0;  // the first lane whose pairs end past this one
#pragma unroll
    for (int step = 16; step >= 1; step /= 2)
      if (__shfl_sync(device::kWholeWarp, end, owner + step - 1) <= pair) owner += step;
    const int member = __shfl_sync(device::kWholeWarp, mine.first - (end - mine.count), owner) + pair;
    add_pairs_of_lanes(members, row, pair < total, {__shfl_sync(device::kWholeWarp, entry, owner), member});
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
