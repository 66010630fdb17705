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
  Record record, second;  ///< of the group's first two members; second: only where there are two
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
  int count;  ///< of the CTA
  int writes;
};

/// 32 of a warp's entries, one a lane: first, first + warps, .. Returns the lanes whose entries begin groups.
__device__ __forceinline__ unsigned load_items(const Entries& e, const Deal& deal, int first, int warps, Item* items) {
  const int lane = static_cast<int>(threadIdx.x & 31), entry = first + lane * warps;
  Item& mine = items[lane];
  uint4 bits{0, 0, 0, 0};
  __syncwarp();  // every lane is done with what lay here
  if (entry < e.count) {
    const int token = entry / e.writes;
    mine.token = token;
    mine.position =
        __ldg(e.position + entry - token * e.writes + (static_cast<int>(blockIdx.y) + deal.ctas * token) * e.writes);
    bits = device::load_stream(e.records + mine.position);
    *reinterpret_cast<uint4*>(&mine.record) = bits;
  }
  return __ballot_sync(~0u, (bits.x & kFirst) != 0);
}

/// The rest of the items: second members and ordinals. A window in which every position begins a group needs no look at
/// its records.
__device__ __forceinline__ void complete_items(const Entries& e, unsigned firsts, Item* items) {
  const int lane = static_cast<int>(threadIdx.x & 31);
  Item& mine = items[lane];
  bool mixed = false;
  int position = 0, ordinal = 0;
  if (((firsts >> lane) & 1u) != 0) {
    position = mine.position;
    if ((mine.record.payload & kLast) == 0)
      *reinterpret_cast<uint4*>(&mine.second) = device::load_stream(e.records + position + 1);
    ordinal = __ldg(&e.windows[position / 32].groups_before);
    mixed = __ldg(&e.windows[position / 32 + 1].groups_before) != ordinal + 32;
    if (!mixed) ordinal += position & 31;
  }
  const unsigned open = __ballot_sync(~0u, mixed);
  constexpr int kTogether = 8;
#pragma unroll 1
  for (int base = 0; (open >> base) != 0; base += kTogether) {
    bool earlier[kTogether];
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int at = __shfl_sync(~0u, position, base + i);
      earlier[i] = lane < (at & 31) && (__ldg(&e.payload[(at & ~31) + lane]) & kFirst) != 0;
    }
#pragma unroll
    for (int i = 0; i < kTogether; ++i) {
      const int count = __popc(__ballot_sync(~0u, earlier[i]));
      if (lane == base + i && mixed) ordinal += count;
    }
    if (base + kTogether >= 32) break;
  }
  mine.ordinal = ordinal;
  __syncwarp();
}

}  // namespace sdm::write
