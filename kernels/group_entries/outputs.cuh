#pragma once
// What follows the sort, shared by the variants: FIRST bits, windows, payloads, inverse positions, matches.
#include "kernels/common/bucket_sort.cuh"
#include "kernels/common/launch.h"
#include "kernels/group_entries/group_entries.h"

namespace sdm::group_entries {

/// One (chunk, side) to sort.
struct Segment {
  AnyPtr index;
  Groups groups;
  int entries;      // W or R
  int positions;    // n
  int valid;        // sorted positions that are no padding
  std::int64_t at;  // of the chunk's first position
  std::int64_t chunk;
  std::int32_t base;  // first absolute row of the stream
  device::Divider by_token;
  const std::int32_t*
      low_word;  // of the chunk's first index; rows are below 2^31, so the low word of an i64 is the row
  int words;     // 32-bit words an index

  /// These fields of a payload, of an entry of the chunk.
  __device__ __forceinline__ std::uint32_t token_and_entry(int entry) const {
    return static_cast<std::uint32_t>(by_token.quotient(entry) * (512 - entries) + entry);  // token * 512 is token << 9
  }
  __device__ __forceinline__ std::uint32_t slot_of(int entry) const {
    return static_cast<std::uint32_t>(low_word[std::int64_t{entry} * words] - base);
  }
};

enum class SideOf : int { writes, reads };

__device__ __forceinline__ Segment segment_of(const Params& p, std::int64_t chunk, SideOf side) {
  const bool is_write = side == SideOf::writes;
  Segment s{is_write ? p.k_idx : p.q_idx,
            is_write ? p.writes : p.reads,
            is_write ? p.dims.writes : p.dims.reads,
            0,
            0,
            0,
            chunk,
            static_cast<std::int32_t>(chunk % p.dims.streams * p.dims.slots),
            device::Divider(is_write ? p.dims.writes : p.dims.reads),
            nullptr,
            1};
  s.positions = p.dims.chunk * s.entries;
  s.valid = p.dims.valid_tokens_of_chunk(chunk) * s.entries;
  s.at = chunk * s.positions;
  s.words = s.index.dtype == DType::i64 ? 2 : 1;
  s.low_word = static_cast<const std::int32_t*>(s.index.data) + s.at * s.words;
  return s;
}

/// mask[w]: bit i is set where sorted position 32*w + i is a FIRST; zeros past the end. Every padding entry is a FIRST.
template <typename Team, typename Items>
__device__ __forceinline__ void mark_firsts(const Team& team, const Segment& s, const Items& items,
                                            std::uint32_t* mask) {
  const int words = (s.positions + 31) / 32;
  for (int w = team.warp(); w < words; w += team.warps()) {
    const int i = 32 * w + device::lane_id();
    bool first = i < s.positions;
    if (i > 0 && i < s.valid) first = items.get(i).key != items.get(i - 1).key;
    const std::uint32_t bits = __ballot_sync(device::kWholeWarp, first);
    if (device::lane_id() == 0) mask[w] = bits;
  }
}

/// The windows, by one warp. A group has at most C <= 256 members, so the search for the next FIRST is short.
__device__ __forceinline__ void write_windows(const Segment& s, const std::uint32_t* mask) {
  const int words = (s.positions + 31) / 32, count = window_count(s.positions);
  Window* window = s.groups.window + s.chunk * count;
  int before = 0;
  for (int base = 0; base < count; base += 32) {
    const int w = base + device::lane_id();
    int groups = 0;
    if (w < words) {
      const int valid_bits = s.valid - 32 * w;
      const std::uint32_t keep = valid_bits >= 32 ? ~0u : (valid_bits > 0 ? (1u << valid_bits) - 1u : 0u);
      groups = __popc(mask[w] & keep);
    }
    const int inclusive = device::warp_inclusive_sum(groups);
    if (w < count) {
      int next = w;
      while (next < words && mask[next] == 0) ++next;
      window[w] = {next < words ? 32 * next + __ffs(static_cast<int>(mask[next])) - 1 : s.positions,
                   before + inclusive - groups};
    }
    before += __shfl_sync(device::kWholeWarp, inclusive, 31);
  }
}

/// Position of the last FIRST before word w.
__device__ __forceinline__ int first_before(const std::uint32_t* mask, int w) {
  while (mask[--w] == 0) {  // position 0 is a FIRST
  }
  return 32 * w + 31 - __clz(static_cast<int>(mask[w]));
}

/// Payloads, slots and windows of a sorted segment; calls place(item, position) for every position. All threads of the
/// team call it after the sort; `mask`: shared, a word per 32 positions, which a warp takes at a time.
template <typename Team, typename Items, typename Place>
__device__ __forceinline__ void write_segment(const Team& team, const Segment& s, const Items& items,
                                              std::uint32_t* mask, Place&& place) {
  mark_firsts(team, s, items, mask);
  team.sync();
  if (team.warp() == 0) write_windows(s, mask);
  std::uint32_t* payloads = s.groups.payload + s.at;
  std::int32_t* slots = s.groups.slot + s.at;
  const int lane = device::lane_id(), words = (s.positions + 31) / 32;
  const std::uint32_t up_to_lane = (2u << lane) - 1u;  // the shift by 31 gives 0 - 1 = all
  for (int w = team.warp(); w < words; w += team.warps()) {
    const int i = 32 * w + lane;
    const std::uint32_t firsts = mask[w], next = w + 1 < words ? mask[w + 1] : 1u;
    if (i >= s.positions) continue;
    const bool invalid = i >= s.valid;
    const device::SortItem item = invalid ? device::SortItem{0, static_cast<std::uint32_t>(i)} : items.get(i);
    const int entry = static_cast<int>(item.entry), token = s.by_token.quotient(entry);
    const std::uint32_t mine = firsts & up_to_lane;
    const int first = mine != 0 ? 32 * w + 31 - __clz(static_cast<int>(mine)) : first_before(mask, w);
    const bool last = i + 1 == s.positions || (__funnelshift_rc(firsts, next, lane + 1) & 1u) != 0;
    payloads[i] = make_payload(first == i, last, i - first, invalid, token, entry - token * s.entries);
    slots[i] = invalid ? 0 : s.base + static_cast<std::int32_t>(item.key);
    place(item, i);
  }
}

/// First of the sorted slots [low, high) that is not below `slot`.
__device__ __forceinline__ int lower_bound(const std::int32_t* slots, int low, int high, std::int32_t slot) {
  while (low < high) {
    const int middle = (low + high) / 2;
    if (slots[middle] < slot)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

inline constexpr int kMatchThreads = 256;
inline constexpr int kMatchWindows = 31;  // of 32 positions, a warp: 32 lanes hold their 31 + 1 bounds

/// Joins the sorted slots of both sides. A warp searches the first slots of its windows among all slots of the other
/// side; a position then searches only between the bounds of its window, about 32 slots. grid.y: the side.
template <int kUnused = 0>
__global__ void __launch_bounds__(kMatchThreads) match_kernel(const __grid_constant__ Params p, int blocks_per_chunk) {
  device::wait_for_previous_grid();
  const std::int64_t chunk = blockIdx.x / static_cast<unsigned>(blocks_per_chunk);
  const int block = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks_per_chunk));
  const bool is_write = blockIdx.y == 0;
  const Segment mine = segment_of(p, chunk, is_write ? SideOf::writes : SideOf::reads);
  const Segment other = segment_of(p, chunk, is_write ? SideOf::reads : SideOf::writes);
  const int lane = device::lane_id();
  const int first_window = (block * (kMatchThreads / 32) + device::warp_id()) * kMatchWindows;
  if (32 * first_window >= mine.positions) return;  // whole warps
  const std::int32_t* slots = mine.groups.slot + mine.at;
  const std::int32_t* theirs = other.groups.slot + other.at;
  const int start = 32 * (first_window + lane);
  const int bound = start < mine.valid ? lower_bound(theirs, 0, other.valid, slots[start]) : other.valid;
  for (int w = 0; w < kMatchWindows; ++w) {
    const int i = 32 * (first_window + w) + lane;
    const int low = __shfl_sync(device::kWholeWarp, bound, w), high = __shfl_sync(device::kWholeWarp, bound, w + 1);
    if (i >= mine.positions) continue;
    int match = -1;
    if (i < mine.valid) {
      const std::int32_t slot = slots[i];
      const int found = lower_bound(theirs, low, high, slot);
      if (found < other.valid && theirs[found] == slot) match = found;
    }
    mine.groups.match[mine.at + i] = match;
  }
}

inline void launch_match(const Params& p, const LaunchContext& context) {
  const int positions = p.dims.writes > p.dims.reads ? p.dims.write_positions() : p.dims.read_positions();
  const int blocks = device::ceil_div(positions, 32 * kMatchWindows * (kMatchThreads / 32));
  device::launch(match_kernel<>, {dim3(static_cast<unsigned>(p.dims.chunks() * blocks), 2), kMatchThreads, 0}, context,
                 p, blocks);
}

}  // namespace sdm::group_entries
