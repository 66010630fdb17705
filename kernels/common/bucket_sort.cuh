#pragma once
// A sort of one list in shared memory by a team of warps: items go to buckets by the upper bits of their slots, then
// every bucket is sorted. Uniform slots give about one item a bucket, so that runs of eight items sorted in registers
// are enough; buckets that hot or neighbouring slots fill are sorted by a warp or by the team. Items are all different
// (slot and entry), so any order of arrival ends in the same list.
#include <cstdint>

#include "kernels/common/entry_values.cuh"

namespace sdm::device {

/// Warps of a CTA that share one list. Barrier 0 with all threads is __syncthreads(); the number is known at compile
/// time, or a CTA would reserve all 16.
template <int kBarrier>
struct Team {
  int thread, threads;
  __device__ __forceinline__ int warp() const { return thread / 32; }
  __device__ __forceinline__ int warps() const { return threads / 32; }
  __device__ __forceinline__ void sync() const {
    asm volatile("bar.sync %0, %1;" ::"n"(kBarrier), "r"(threads) : "memory");
  }
};
__device__ __forceinline__ Team<0> whole_cta() { return {static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x)}; }

struct SortItem {
  std::uint32_t key, entry;
};

/// Items as one number each, slot above entry: a list has fewer than 65536 of them.
template <typename Packed>
struct PackedList {
  Packed* items;
  int entry_bits;
  __device__ __forceinline__ Packed pack(std::uint32_t slot, int entry) const {
    return (static_cast<Packed>(slot) << entry_bits) | static_cast<Packed>(entry);
  }
  __device__ __forceinline__ SortItem get(int i) const {
    const Packed item = items[i];
    return {static_cast<std::uint32_t>(item >> entry_bits), entry_of(item)};
  }
  __device__ __forceinline__ std::uint32_t entry_of(Packed item) const {
    return static_cast<std::uint32_t>(item) & ((1u << entry_bits) - 1u);
  }
};

/// Where the buckets lie in the list: 16 bits each, two to a word. Adding to one never carries into its neighbour. The
/// word before the first is zero, the end of no bucket, and the words are a whole number of 16-byte vectors.
struct BucketTable {
  std::uint32_t* words;
  int bits, shift;  ///< 2^bits buckets; the bucket of a slot is slot >> shift
  __device__ __forceinline__ int buckets() const { return 1 << bits; }
  __device__ __forceinline__ int vectors() const { return (buckets() + 7) / 8; }
  /// Adds one, or nothing (without a branch), and gives the sum before.
  __device__ __forceinline__ int add(std::uint32_t slot, bool one) const {
    const std::uint32_t bucket = slot >> shift;
    const bool upper = bucket % 2 != 0;
    const std::uint32_t before = atomicAdd(words + bucket / 2, one ? (upper ? 0x10000u : 1u) : 0u);
    return static_cast<int>(upper ? before >> 16 : before & 0xffffu);
  }
  /// One past the bucket's last item, once all items are placed.
  __device__ __forceinline__ int end(int bucket) const { return reinterpret_cast<const std::uint16_t*>(words)[bucket]; }
  __device__ __forceinline__ int begin(int bucket) const { return end(bucket - 1); }
};

__device__ __forceinline__ std::uint32_t both_halves(std::uint32_t word) { return (word & 0xffffu) + (word >> 16); }

/// Items that a thread sorts in registers: two runs of eight, half a run apart, hold every bucket of up to
/// kShortBucket items whole in one of them.
inline constexpr int kRun = 8, kShortBucket = kRun / 2 + 1;

/// Items of a list of `count`, filled up: runs are whole and one item follows the last.
SDM_HD int list_length(int count) { return count / kRun * kRun + kRun; }

/// Most items of a bucket that one warp sorts.
inline constexpr int kWarpItems = 1024;

/// What a sort needs in shared memory.
struct BucketScratch {
  std::uint16_t* long_buckets;  ///< [items / (kShortBucket + 1)]
  std::uint32_t* totals;        ///< [32]
  int* long_count;              ///< of long buckets, and kHuge for each that a warp does not sort
  static constexpr int kHuge = 1 << 16;
};

__device__ __forceinline__ void list_long_buckets(const uint4& counts, int first, const BucketScratch& scratch) {
  const std::uint32_t words[4] = {counts.x, counts.y, counts.z, counts.w};
#pragma unroll
  for (int b = 0; b < 8; ++b) {
    const std::uint32_t count = (words[b / 2] >> (16 * (b % 2))) & 0xffffu;
    if (count <= kShortBucket) continue;
    const int before = atomicAdd(scratch.long_count, 1 + (count > kWarpItems ? BucketScratch::kHuge : 0));
    scratch.long_buckets[before % BucketScratch::kHuge] = static_cast<std::uint16_t>(first + b);
  }
}

/// Turns the buckets' counts into their begins, a run of vectors a thread, and lists the long buckets.
template <typename Team>
__device__ __forceinline__ void bucket_begins(const Team& team, const BucketTable& table,
                                              const BucketScratch& scratch) {
  auto* vectors = reinterpret_cast<uint4*>(table.words);
  const int run = (table.vectors() + team.threads - 1) / team.threads;
  const int first = team.thread * run, last = min(first + run, table.vectors());
  std::uint32_t sum = 0;
  for (int v = first; v < last; ++v) {
    const uint4 w = vectors[v];
    sum += both_halves(w.x) + both_halves(w.y) + both_halves(w.z) + both_halves(w.w);
  }
  const std::uint32_t inclusive = warp_inclusive_sum(sum);
  if (lane_id() == 31) scratch.totals[team.warp()] = inclusive;
  team.sync();
  std::uint32_t before = __reduce_add_sync(kWholeWarp, lane_id() < team.warp() ? scratch.totals[lane_id()] : 0u);
  before += inclusive - sum;
  for (int v = first; v < last; ++v) {
    uint4 w = vectors[v];
    const std::uint32_t most = __vmaxu2(__vmaxu2(w.x, w.y), __vmaxu2(w.z, w.w));
    if (max(most & 0xffffu, most >> 16) > kShortBucket) list_long_buckets(w, 8 * v, scratch);
    const auto begins = [&](std::uint32_t& word) {  // both halves at once: neither sum carries
      const std::uint32_t counts = word;
      word = (counts << 16) + before * 0x10001u;
      before += both_halves(counts);
    };
    begins(w.x), begins(w.y), begins(w.z), begins(w.w);
    vectors[v] = w;
  }
  team.sync();
}

// --- runs ------------------------------------------------------------------------------------------------------------

/// kCount items at a 16-byte aligned place.
template <int kCount, typename T>
__device__ __forceinline__ void load_items(const T* at, T (&item)[kCount]) {
  constexpr int kEach = 16 / sizeof(T);
#pragma unroll
  for (int v = 0; v < kCount / kEach; ++v) {
    const uint4 bits = reinterpret_cast<const uint4*>(at)[v];
    if constexpr (sizeof(T) == 4) {
      item[4 * v] = bits.x, item[4 * v + 1] = bits.y, item[4 * v + 2] = bits.z, item[4 * v + 3] = bits.w;
    } else {
      item[2 * v] = T{bits.y} << 32 | bits.x, item[2 * v + 1] = T{bits.w} << 32 | bits.z;
    }
  }
}
template <int kCount, typename T>
__device__ __forceinline__ void store_items(T* at, const T (&item)[kCount]) {
  constexpr int kEach = 16 / sizeof(T);
#pragma unroll
  for (int v = 0; v < kCount / kEach; ++v) {
    if constexpr (sizeof(T) == 4) {
      reinterpret_cast<uint4*>(at)[v] = make_uint4(item[4 * v], item[4 * v + 1], item[4 * v + 2], item[4 * v + 3]);
    } else {
      const auto low = [](T x) { return static_cast<unsigned>(x); };
      const auto high = [](T x) { return static_cast<unsigned>(x >> 32); };
      reinterpret_cast<uint4*>(at)[v] =
          make_uint4(low(item[2 * v]), high(item[2 * v]), low(item[2 * v + 1]), high(item[2 * v + 1]));
    }
  }
}

/// A network of 19 exchanges: no loop that some lanes run and others wait for.
template <typename T>
__device__ __forceinline__ void sort_run(T (&x)[kRun]) {
  const auto exchange = [&](int i, int j) {
    const T smaller = min(x[i], x[j]);
    x[j] = max(x[i], x[j]), x[i] = smaller;
  };
  exchange(0, 2), exchange(1, 3), exchange(4, 6), exchange(5, 7);
  exchange(0, 4), exchange(1, 5), exchange(2, 6), exchange(3, 7);
  exchange(0, 1), exchange(2, 3), exchange(4, 5), exchange(6, 7);
  exchange(2, 4), exchange(3, 5), exchange(1, 4), exchange(3, 6);
  exchange(1, 2), exchange(3, 4), exchange(5, 6);
}

/// Sorts the runs that begin at `first`, first + kRun, ..: those that end by `count`, a multiple of kRun/2.
template <typename Team, typename T>
__device__ __forceinline__ void sort_runs(const Team& team, T* items, int first, int count) {
#pragma unroll 1
  for (int at = first + kRun * team.thread; at + kRun <= count; at += kRun * team.threads) {
    T run[kRun];
    if constexpr (sizeof(T) == 4) {
      // Four lanes take their halves the other way round than the next four, so that all are in different banks.
      const bool swapped = lane_id() / 4 % 2 != 0;
      auto* lower = reinterpret_cast<uint4*>(items + at) + (swapped ? 1 : 0);
      auto* upper = reinterpret_cast<uint4*>(items + at) + (swapped ? 0 : 1);
      const uint4 a = *lower, b = *upper;
      run[0] = a.x, run[1] = a.y, run[2] = a.z, run[3] = a.w, run[4] = b.x, run[5] = b.y, run[6] = b.z, run[7] = b.w;
      sort_run(run);
      const uint4 low = make_uint4(run[0], run[1], run[2], run[3]), high = make_uint4(run[4], run[5], run[6], run[7]);
      *lower = swapped ? high : low;
      *upper = swapped ? low : high;
    } else {
      load_items<kRun>(items + at, run);
      sort_run(run);
      store_items<kRun>(items + at, run);
    }
  }
}

// --- long buckets ----------------------------------------------------------------------------------------------------

/// Bitonic, for any count: the first step of a merge mirrors its upper half, so that every exchange puts the smaller
/// item first and the infinite items that would fill up to a power of two never move.
template <typename T, typename Sync>
__device__ __forceinline__ void bitonic_sort(T* items, int count, int thread, int threads, Sync&& sync) {
  for (int size = 2; size < 2 * count; size *= 2)
    for (int stride = size / 2; stride >= 1; stride /= 2) {
      for (int pair = thread;; pair += threads) {
        const int inside = pair & (stride - 1), low = 2 * (pair - inside) + inside;
        if (low >= count) break;
        const int high = stride == size / 2 ? (low | (size - 1)) - inside : low + stride;
        if (high >= count) continue;
        const T a = items[low], b = items[high];
        if (b < a) items[low] = b, items[high] = a;
      }
      sync();
    }
}

/// Up to 32 items by a warp: each goes where the number of smaller ones says.
template <typename T>
__device__ __forceinline__ void rank_sort(T* items, int count) {
  const bool there = lane_id() < count;
  const T mine = there ? items[lane_id()] : ~T{0};
  int rank = 0;
#pragma unroll 1
  for (int other = 0; other < count; ++other) rank += __shfl_sync(kWholeWarp, mine, other) < mine ? 1 : 0;
  __syncwarp();
  if (there) items[rank] = mine;
}

/// Sorts the buckets that runs do not. With ranks in place of exchanges for the usual ones, which six to eight items
/// fill, group_entries took 41.5 us at default on an H200 in place of 42.6.
template <typename Team, typename Packed>
__device__ __forceinline__ void sort_long_buckets(const Team& team, const PackedList<Packed>& list,
                                                  const BucketTable& table, const BucketScratch& scratch) {
  const int longs = *scratch.long_count % BucketScratch::kHuge;
  for (int n = team.warp(); n < longs; n += team.warps()) {
    const int begin = table.begin(scratch.long_buckets[n]), count = table.end(scratch.long_buckets[n]) - begin;
    if (count <= 32)
      rank_sort(list.items + begin, count);
    else if (count <= kWarpItems)
      bitonic_sort(list.items + begin, count, lane_id(), 32, [] { __syncwarp(); });
  }
  if (*scratch.long_count == longs) return;
  for (int n = 0; n < longs; ++n) {
    const int begin = table.begin(scratch.long_buckets[n]), count = table.end(scratch.long_buckets[n]) - begin;
    if (count > kWarpItems) bitonic_sort(list.items + begin, count, team.thread, team.threads, [&] { team.sync(); });
  }
}

/// Neighbouring entries that a thread takes together.
inline constexpr int kFour = 4;
template <bool kAll>  // four are there
struct FourSlots {
  std::uint32_t slot[kFour];
  int present;  ///< of these entries; slots past them are 0
  __device__ __forceinline__ bool has(int j) const { return kAll || j < present; }
};

/// Sorts the items (slot, entry) of entries 0 .. count-1. `for_slots(use)` calls use(first entry, FourSlots) for the
/// thread's share of them. The list is filled up to list_length(count) with items above all others. All threads of the
/// team call it; it ends with a barrier.
template <typename Team, typename Packed, typename ForSlots>
__device__ __forceinline__ void bucket_sort(const Team& team, const PackedList<Packed>& list, const BucketTable& table,
                                            const BucketScratch& scratch, int count, ForSlots&& for_slots) {
  for (int v = team.thread; v < table.vectors(); v += team.threads)
    reinterpret_cast<uint4*>(table.words)[v] = make_uint4(0, 0, 0, 0);
  const int filled = list_length(count);
  if (team.thread < filled - count) list.items[count + team.thread] = ~Packed{0};
  if (team.thread == 0) *scratch.long_count = 0, table.words[-1] = 0;
  team.sync();
  for_slots([&](int, const auto& four) {
#pragma unroll
    for (int j = 0; j < kFour; ++j) table.add(four.slot[j], four.has(j));
  });
  team.sync();
  bucket_begins(team, table, scratch);
  for_slots([&](int entry, const auto& four) {
    int at[kFour];  // four atomics on their way
#pragma unroll
    for (int j = 0; j < kFour; ++j) at[j] = table.add(four.slot[j], four.has(j));
#pragma unroll
    for (int j = 0; j < kFour; ++j)
      if (four.has(j)) list.items[at[j]] = list.pack(four.slot[j], entry + j);
  });
  team.sync();
  sort_runs(team, list.items, 0, filled);
  team.sync();
  sort_runs(team, list.items, kRun / 2, filled);
  team.sync();
  sort_long_buckets(team, list, table, scratch);
  team.sync();
}

}  // namespace sdm::device
