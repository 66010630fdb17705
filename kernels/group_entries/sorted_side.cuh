#pragma once
// One side of a chunk, sorted in shared memory (block_sort): its layout there, look-ups, and what is written of it.
#include <algorithm>
#include <bit>
#include <utility>

#include "kernels/group_entries/outputs.cuh"

namespace sdm::group_entries {

/// Where one side's data lie, in bytes, and how its slots are cut. The table takes the inverse positions in the end,
/// the list of long buckets the mask.
struct SideLayout {
  int items, table, longs;
  int entry_bits, table_bits, shift;
};

/// About one bucket an entry, no more than there are slots.
inline SideLayout side_layout(int positions, std::int64_t slots, int item_bytes, int& at) {
  const auto bits = [](std::int64_t values) { return std::bit_width(static_cast<std::uint64_t>(values - 1)); };
  SideLayout side{};
  side.entry_bits = static_cast<int>(bits(positions));
  side.table_bits = static_cast<int>(std::min(bits(slots), bits(positions)));
  side.shift = static_cast<int>(bits(slots)) - side.table_bits;
  const auto take = [&](int bytes) { return std::exchange(at, at + (bytes + 15) / 16 * 16); };
  side.items = take(device::list_length(positions) * item_bytes);
  constexpr int kBefore = 16;  // the word before the table, and its alignment
  side.table = take(kBefore + 2 * std::max(positions, 1 << side.table_bits)) + kBefore;
  side.longs = take(std::max(4 * ((positions + 31) / 32), 2 * (positions / (device::kShortBucket + 1) + 1)));
  return side;
}

using device::kFour;  // neighbouring positions or entries of a thread: accesses of 16 bytes

/// Stores four values at position i of `at`, or those of them that lie below `end`.
__device__ __forceinline__ void store_four(std::int32_t* at, int i, int end, const std::int32_t (&value)[kFour]) {
  if (end % kFour == 0)
    *reinterpret_cast<int4*>(at + i) = make_int4(value[0], value[1], value[2], value[3]);
  else
    for (int j = 0; j < kFour; ++j)
      if (i + j < end) at[i + j] = value[j];
}

/// use(first entry, slots) for the team's valid entries, the next four on their way.
template <typename Team, typename Use>
__device__ __forceinline__ void for_slots(const Team& team, const Segment& s, Use&& use) {
  const bool vectors = s.words == 1 && s.positions % kFour == 0;
  const auto load = [&](int e) {
    if (vectors) return *reinterpret_cast<const int4*>(s.low_word + e);
    const auto word = [&](int j) { return e + j < s.valid ? s.low_word[std::int64_t{e + j} * s.words] : 0; };
    return make_int4(word(0), word(1), word(2), word(3));
  };
  int e = kFour * team.thread;
  int4 next = e < s.valid ? load(e) : int4{};
#pragma unroll 1
  while (e < s.valid) {
    const std::int32_t row[kFour] = {next.x, next.y, next.z, next.w};
    const int later = e + kFour * team.threads;
    if (later < s.valid) next = load(later);
    device::FourSlots four{{}, s.valid - e};
#pragma unroll
    for (int j = 0; j < kFour; ++j) four.slot[j] = j < four.present ? static_cast<std::uint32_t>(row[j] - s.base) : 0u;
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

  /// Sorted position of the first entry of the slot, or -1. A bucket rarely holds more than a few items, and greater
  /// ones follow it.
  __device__ __forceinline__ int find(std::uint32_t slot) const {
    constexpr int kFew = 16;
    const int bucket = static_cast<int>(slot >> table.shift), end = table.end(bucket);
    const Packed wanted = list.pack(slot, 0);
    int at = table.begin(bucket);
    if (end - at > kFew) {
      int high = end;
      while (at < high) {
        const int middle = (at + high) / 2;
        if (list.items[middle] < wanted)
          at = middle + 1;
        else
          high = middle;
      }
    }
    while (at < end && list.items[at] < wanted) ++at;
    return at < end && list.get(at).key == slot ? at : -1;
  }

  /// How far position i lies behind the first of its slot.
  __device__ __forceinline__ int distance(int i, std::uint32_t slot) const {
    const Packed lowest = list.pack(slot, 0);
    int first = i;
    while (first > 0 && list.items[first - 1] >= lowest) --first;
    return i - first;
  }
};

/// Payloads, slots and matches of four neighbouring positions a thread, and the mask of FIRST bits. Whole warps, 128
/// positions each.
template <bool kMatch, typename Team, typename Packed>
__device__ __forceinline__ void write_sorted(const Team& team, const Segment& s, const Sorted<Packed>& sorted,
                                             const Sorted<Packed>& other) {
  const int lane = device::lane_id(), n = s.positions;
#pragma unroll 1
  for (int base = 32 * kFour * team.warp(); base < n; base += kFour * team.threads) {
    const int i = base + kFour * lane;
    std::uint32_t firsts = 0;
    if (i < n) {
      Packed item[kFour];
      device::load_items<kFour>(sorted.list.items + i, item);
      const auto slot_of = [&](int j) { return static_cast<std::uint32_t>(item[j] >> sorted.list.entry_bits); };
      const auto begins = [&](int j) { return i + j >= s.valid || slot_of(j - 1) != slot_of(j); };
      bool next = i == 0 || i >= s.valid || sorted.list.get(i - 1).key != slot_of(0);
      int distance = next ? 0 : sorted.distance(i, slot_of(0));
      std::int32_t value[kFour];
#pragma unroll
      for (int j = 0; j < kFour; ++j) {
        const bool first = next, invalid = i + j >= s.valid;
        if (first) firsts |= i + j < n ? 1u << j : 0u, distance = 0;
        if (j + 1 < kFour)
          next = begins(j + 1);
        else
          next = i + kFour >= s.valid || sorted.list.get(i + kFour).key != slot_of(j);
        const int entry = invalid ? i + j : static_cast<int>(sorted.list.entry_of(item[j]));
        const int token = s.by_token.quotient(entry);
        value[j] =
            static_cast<std::int32_t>(make_payload(first, next, distance++, invalid, token, entry - token * s.entries));
      }
      store_four(reinterpret_cast<std::int32_t*>(s.groups.payload + s.at), i, n, value);
#pragma unroll
      for (int j = 0; j < kFour; ++j) value[j] = i + j < s.valid ? s.base + static_cast<std::int32_t>(slot_of(j)) : 0;
      store_four(s.groups.slot + s.at, i, n, value);
      if constexpr (kMatch) {
#pragma unroll
        for (int j = 0; j < kFour; ++j) value[j] = i + j < s.valid ? other.find(slot_of(j)) : -1;
        store_four(s.groups.match + s.at, i, n, value);
      }
    }
    firsts <<= kFour * (lane % 8);
#pragma unroll
    for (int step = 1; step < 8; step *= 2) firsts |= __shfl_xor_sync(device::kWholeWarp, firsts, step);
    if (lane % 8 == 0 && i < n) sorted.mask[i / 32] = firsts;
  }
}

/// Where entries went, by entry: through shared memory, so that global stores are in order.
template <typename Team, typename Packed>
__device__ __forceinline__ void write_positions(const Team& team, const Segment& s, const Sorted<Packed>& sorted) {
  auto* position = reinterpret_cast<std::uint16_t*>(sorted.table.words);
#pragma unroll 1
  for (int i = kFour * team.thread; i < s.positions; i += kFour * team.threads) {
    Packed item[kFour];
    device::load_items<kFour>(sorted.list.items + i, item);
#pragma unroll
    for (int j = 0; j < kFour; ++j)
      if (i + j < s.positions)
        position[i + j < s.valid ? sorted.list.entry_of(item[j]) : i + j] = static_cast<std::uint16_t>(i + j);
  }
  team.sync();
#pragma unroll 1
  for (int e = kFour * team.thread; e < s.positions; e += kFour * team.threads) {
    const uint2 four = *reinterpret_cast<const uint2*>(position + e);
    const auto half = [](std::uint32_t word, int upper) {
      return static_cast<std::int32_t>((word >> (16 * upper)) & 0xffffu);
    };
    const std::int32_t value[kFour] = {half(four.x, 0), half(four.x, 1), half(four.y, 0), half(four.y, 1)};
    store_four(s.groups.position + s.at, e, s.positions, value);
  }
}

}  // namespace sdm::group_entries
