#pragma once
// One side of a chunk, sorted in shared memory (block_sort): its layout there, look-ups, and what is written of it.
#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/group_entries/outputs.cuh"

namespace sdm::group_entries {

/// Where one side's data lie, in bytes, and how its slots are cut. The table takes the inverse positions in the end
/// (that of the reads the matches of the writes before), the list of long buckets the mask.
struct SideLayout {
  int items, table, longs;
  int entry_bits, table_bits, shift;
};

/// About one bucket an entry, no more than there are slots. `most`: positions of the longer side.
inline SideLayout side_layout(int positions, int most, std::int64_t slots, int item_bytes, int& at) {
  const auto bits = [](std::int64_t values) { return std::bit_width(static_cast<std::uint64_t>(values - 1)); };
  SideLayout side{};
  side.entry_bits = static_cast<int>(bits(positions));
  side.table_bits = static_cast<int>(std::min(bits(slots), bits(positions)));
  side.shift = static_cast<int>(bits(slots)) - side.table_bits;
  const auto take = [&](int bytes) { return std::exchange(at, at + (bytes + 15) / 16 * 16); };
  side.items = take(device::list_length(positions) * item_bytes);
  constexpr int kBefore = 16;  // the word before the table, and its alignment
  side.table = take(kBefore + 2 * std::max(most, 1 << side.table_bits)) + kBefore;
  side.longs = take(std::max(4 * ((positions + 31) / 32), 2 * (positions / (device::kShortBucket + 1) + 1)));
  return side;
}

using device::kFour;  // neighbouring positions or entries of a thread: accesses of 16 bytes

/// How many of the stages that come next read a value. What at most one reads (slots, positions, matches of the writes)
/// leaves L2 first: group_entries 44.0 us at small120 on an H200 in place of 45.2, prepare as one graph 221.9 and
/// 224.0.
enum class ReadBy { several, one };

/// Stores four values at position i of `at`, or those of them that lie below `end`. kWhole: all do, at a multiple of 16
/// bytes.
template <bool kWhole, ReadBy kReadBy = ReadBy::several>
__device__ __forceinline__ void store_four(std::int32_t* at, int i, int end, const std::int32_t (&value)[kFour]) {
  if (kWhole || end % kFour == 0) {
    auto* four = reinterpret_cast<int4*>(at + i);
    const int4 values = make_int4(value[0], value[1], value[2], value[3]);
    if constexpr (kReadBy == ReadBy::one)
      __stcs(four, values);
    else
      *four = values;
  } else {
    for (int j = 0; j < kFour; ++j)
      if (i + j < end) at[i + j] = value[j];
  }
}

/// use(first entry, slots) for the team's valid entries, the next four on their way.
template <bool kWhole, typename Team, typename Use>
__device__ __forceinline__ void for_slots(const Team& team, const Segment& s, Use&& use) {
  const int count = kWhole ? s.positions : s.valid;
  const bool vectors = kWhole || (s.words == 1 && s.positions % kFour == 0);
  const auto load = [&](int e) {
    if (vectors) return *reinterpret_cast<const int4*>(s.low_word + e);
    const auto word = [&](int j) { return e + j < s.valid ? s.low_word[std::int64_t{e + j} * s.words] : 0; };
    return make_int4(word(0), word(1), word(2), word(3));
  };
  int e = kFour * team.thread;
  int4 next = e < count ? load(e) : int4{};
#pragma unroll 1
  while (e < count) {
    const std::int32_t row[kFour] = {next.x, next.y, next.z, next.w};
    const int later = e + kFour * team.threads;
    if (later < count) next = load(later);
    device::FourSlots<kWhole> four{{}, count - e};
#pragma unroll
    for (int j = 0; j < kFour; ++j) four.slot[j] = four.has(j) ? static_cast<std::uint32_t>(row[j] - s.base) : 0u;
    use(e, four);
    e = later;
  }
}

/// One side of a chunk in shared memory.
template <typename Packed>
struct Sorted {
  device::PackedList<Packed> list;
  device::BucketTable table;
  std::uint32_t* mask;

  __device__ __forceinline__ explicit Sorted(const SideLayout& side)
      : list{reinterpret_cast<Packed*>(device::dynamic_shared() + side.items), side.entry_bits},
        table{reinterpret_cast<std::uint32_t*>(device::dynamic_shared() + side.table), side.table_bits, side.shift},
        mask(reinterpret_cast<std::uint32_t*>(device::dynamic_shared() + side.longs)) {}

  /// Sorted position of the first entry of the slot in its bucket [at, end), or -1; `item` is the one at `at`. A bucket
  /// rarely holds more than a few items, and greater ones follow it.
  __device__ __forceinline__ int find(std::uint32_t slot, int at, int end, Packed item) const {
    constexpr int kFew = 16;
    const Packed wanted = list.pack(slot, 0);
    if (end - at > kFew) {
      for (int high = end; at < high;) {
        const int middle = (at + high) / 2;
        if (list.items[middle] < wanted)
          at = middle + 1;
        else
          high = middle;
      }
      item = list.items[at];
    }
    while (item < wanted && ++at < end) item = list.items[at];
    return at < end && static_cast<std::uint32_t>(item >> list.entry_bits) == slot ? at : -1;
  }

  /// How far position i lies behind the first of its slot.
  __device__ __forceinline__ int distance(int i, std::uint32_t slot) const {
    const Packed lowest = list.pack(slot, 0);
    int first = i;
    while (first > 0 && list.items[first - 1] >= lowest) --first;
    return i - first;
  }
};

/// Payloads and slots of four neighbouring positions a thread, and the mask of FIRST bits. Whole warps, 128 positions
/// each. kWhole, here and below: no position is padding, and their number is a multiple of four.
template <bool kWhole, typename Team, typename Packed>
__device__ __forceinline__ void write_sorted(const Team& team, const Segment& s, const Sorted<Packed>& sorted) {
  const int lane = device::lane_id(), n = s.positions;
#pragma unroll 1
  for (int base = 32 * kFour * team.warp(); base < n; base += kFour * team.threads) {
    const int i = base + kFour * lane;
    std::uint32_t firsts = 0;
    if (i < n) {
      Packed item[kFour];
      device::load_items<kFour>(sorted.list.items + i, item);
      const auto is_padding = [&](int j) { return !kWhole && i + j >= s.valid; };
      const auto slot_of = [&](Packed x) { return static_cast<std::uint32_t>(x >> sorted.list.entry_bits); };
      bool next = i == 0 || is_padding(0) || slot_of(sorted.list.items[i - 1]) != slot_of(item[0]);
      int distance = next ? 0 : sorted.distance(i, slot_of(item[0]));
      std::int32_t value[kFour];
#pragma unroll
      for (int j = 0; j < kFour; ++j) {
        const bool first = next;
        if (first) firsts |= kWhole || i + j < n ? 1u << j : 0u, distance = 0;
        next = is_padding(j + 1) ||
               slot_of(j + 1 < kFour ? item[(j + 1) % kFour] : sorted.list.items[i + kFour]) != slot_of(item[j]);
        const int entry = is_padding(j) ? i + j : static_cast<int>(sorted.list.entry_of(item[j]));
        value[j] = static_cast<std::int32_t>(make_payload(first, next, distance++, is_padding(j), 0, 0) +
                                             s.token_and_entry(entry));
      }
      store_four<kWhole>(reinterpret_cast<std::int32_t*>(s.groups.payload + s.at), i, n, value);
#pragma unroll
      for (int j = 0; j < kFour; ++j)
        value[j] = is_padding(j) ? 0 : s.base + static_cast<std::int32_t>(slot_of(item[j]));
      store_four<kWhole, ReadBy::one>(s.groups.slot + s.at, i, n, value);
    }
    firsts <<= kFour * (lane % 8);
#pragma unroll
    for (int step = 1; step < 8; step *= 2) firsts |= __shfl_xor_sync(device::kWholeWarp, firsts, step);
    if (lane % 8 == 0 && i < n) sorted.mask[i / 32] = firsts;
  }
}

inline constexpr std::uint32_t kUnmatched = 0xffff;

/// Matches of the reads, and in `matches`, all kUnmatched before, those of the writes: one side looks, for both.
template <bool kWhole, typename Team, typename Packed>
__device__ __forceinline__ void find_matches(const Team& team, const Segment& reads, const Segment& writes,
                                             const Sorted<Packed>& sorted, const Sorted<Packed>& other,
                                             std::uint16_t* matches) {
#pragma unroll 1
  for (int i = kFour * team.thread; i < reads.positions; i += kFour * team.threads) {
    Packed item[kFour], found[kFour];
    device::load_items<kFour>(sorted.list.items + i, item);
    std::uint32_t slot[kFour];
    std::int32_t at[kFour];
    int end[kFour];
    const auto is_padding = [&](int j) { return !kWhole && i + j >= reads.valid; };
#pragma unroll
    for (int j = 0; j < kFour; ++j) {  // four look-ups on their way
      slot[j] = static_cast<std::uint32_t>(item[j] >> sorted.list.entry_bits);
      const int bucket = is_padding(j) ? 0 : static_cast<int>(slot[j] >> other.table.shift);
      at[j] = other.table.begin(bucket), end[j] = other.table.end(bucket);
    }
#pragma unroll
    for (int j = 0; j < kFour; ++j) found[j] = other.list.items[at[j]];
#pragma unroll
    for (int j = 0; j < kFour; ++j) {
      at[j] = is_padding(j) ? -1 : other.find(slot[j], at[j], end[j], found[j]);
      if (at[j] >= 0 && (i + j == 0 || sorted.list.get(i + j - 1).key != slot[j]))
        for (int m = at[j]; m < writes.valid && other.list.get(m).key == slot[j]; ++m)
          matches[m] = static_cast<std::uint16_t>(i + j);
    }
    store_four<kWhole>(reads.groups.match + reads.at, i, reads.positions, at);
  }
}

/// 16-bit values of four neighbouring positions or entries a thread, in order, as use() makes them 32-bit ones.
template <bool kWhole, typename Team, typename Use>
__device__ __forceinline__ void write_halves(const Team& team, const std::uint16_t* halves, int count,
                                             std::int32_t* out, Use&& use) {
#pragma unroll 1
  for (int i = kFour * team.thread; i < count; i += kFour * team.threads) {
    const uint2 four = *reinterpret_cast<const uint2*>(halves + i);
    const std::int32_t value[kFour] = {use(four.x & 0xffffu), use(four.x >> 16), use(four.y & 0xffffu),
                                       use(four.y >> 16)};
    store_four<kWhole, ReadBy::one>(out, i, count, value);
  }
}

/// The matches of the writes that find_matches() left.
template <bool kWhole, typename Team>
__device__ __forceinline__ void write_matches(const Team& team, const Segment& s, const std::uint16_t* matches) {
  write_halves<kWhole>(team, matches, s.positions, s.groups.match + s.at,
                       [](std::uint32_t half) { return half == kUnmatched ? -1 : static_cast<std::int32_t>(half); });
}

/// Where entries went, by entry: through shared memory, so that global stores are in order.
template <bool kWhole, typename Team, typename Packed>
__device__ __forceinline__ void write_positions(const Team& team, const Segment& s, const Sorted<Packed>& sorted) {
  auto* position = reinterpret_cast<std::uint16_t*>(sorted.table.words);
#pragma unroll 1
  for (int i = kFour * team.thread; i < s.positions; i += kFour * team.threads) {
    Packed item[kFour];
    device::load_items<kFour>(sorted.list.items + i, item);
#pragma unroll
    for (int j = 0; j < kFour; ++j)
      if (kWhole || i + j < s.positions)
        position[kWhole || i + j < s.valid ? sorted.list.entry_of(item[j]) : i + j] = static_cast<std::uint16_t>(i + j);
  }
  team.sync();
  write_halves<kWhole>(team, position, s.positions, s.groups.position + s.at,
                       [](std::uint32_t half) { return static_cast<std::int32_t>(half); });
}

}  // namespace sdm::group_entries
