#pragma once
// What a warp of `by_token` works on: the entries of its CTA's tokens that begin groups. Device code only.
#include "kernels/common/group_walk.cuh"
#include "kernels/write/write.h"

namespace sdm::write {

/// How a chunk's tokens are dealt out: CTA y owns tokens y, y + ctas, y + 2*ctas, ..: at most `tokens`.
struct Deal {
  int ctas, tokens;
  bool ask;     ///< the L2 for a row ahead of the one on its way to registers
  bool engine;  ///< token rows are brought by the copy engine
};

/// An entry that begins a group.
struct Item {
  Record record, second;  ///< of the group's first member; of its second, where there is one
  int position;           ///< of the first
  int ordinal;
  int token;  ///< of the first, among the CTA's
  int unused;
};

/// What the entries of a chunk are found with.
struct Entries {
  const Record* records;
  const std::uint32_t* payload;  ///< of the records
  const std::int32_t* position;
  const Window* windows;
  int count;      ///< of the CTA
  int writes;     ///< a token
  int valid;      ///< positions of the chunk
  bool in_fours;  ///< payloads may be read as vectors
};

/// Where the record of the CTA's entry lies; -1: there is no such entry.
__device__ __forceinline__ int entry_position(const Entries& e, const Deal& deal, int entry) {
  if (entry >= e.count) return -1;
  const int token = entry / e.writes;
  return __ldg(e.position + entry - token * e.writes + (static_cast<int>(blockIdx.y) + deal.ctas * token) * e.writes);
}

/// How many groups begin in `position`'s window before it.
__device__ __forceinline__ int firsts_before(const Entries& e, int position) {
  const int before = position & 31;
  const std::uint32_t* window = e.payload + (position - before);
  unsigned firsts = 0;
  if (e.in_fours) {
#pragma unroll
    for (int i = 0; i < 32; i += 4) {
      const uint4 v = i < before ? __ldg(reinterpret_cast<const uint4*>(window + i)) : uint4{0, 0, 0, 0};
      firsts |= (v.x >> 31 | v.y >> 31 << 1 | v.z >> 31 << 2 | v.w >> 31 << 3) << i;
    }
  } else {
#pragma unroll 1
    for (int i = 0; i < before; ++i) firsts |= __ldg(window + i) >> 31 << i;
  }
  return __popc(firsts & device::bits_below(before));
}

/// What of an item comes with its record, but is wanted later.
struct ItemRest {
  uint4 second{0, 0, 0, 0};
  int ordinal = 0;
};

/// 32 of a warp's entries, one a lane: the lane's is `entry`, its record lies at `position`. Returns the lanes whose
/// entries begin groups. All loads hang on the position alone, so that one latency is waited for, not one after the
/// other; the caller knows it a round ahead.
__device__ __forceinline__ unsigned load_items(const Entries& e, int entry, int position, Item* items, ItemRest& rest) {
  Item& mine = items[threadIdx.x & 31];
  uint4 bits{0, 0, 0, 0};
  __syncwarp();  // every lane is done with what lay here
  if (position >= 0) {
    mine.position = position;
    mine.token = entry / e.writes;
    bits = device::load_stream(e.records + position);
    if (position + 1 < e.valid) rest.second = device::load_stream(e.records + position + 1);
    rest.ordinal = __ldg(&e.windows[position / 32].groups_before) + firsts_before(e, position);
    *reinterpret_cast<uint4*>(&mine.record) = bits;
  }
  __syncwarp();
  return __ballot_sync(~0u, (bits.x & kFirst) != 0);
}

__device__ __forceinline__ void complete_items(const ItemRest& rest, Item* items) {
  Item& mine = items[threadIdx.x & 31];
  *reinterpret_cast<uint4*>(&mine.second) = rest.second;
  mine.ordinal = rest.ordinal;
  __syncwarp();
}

}  // namespace sdm::write
