#pragma once
// A sort of one list in shared memory by a team of warps: items go to buckets by the upper bits of their slots, then
// every bucket is sorted. Uniform slots give about one item a bucket, so that there is little left to sort; buckets
// that hot or neighbouring slots fill are sorted by a warp or by the team. Items are all different (slot and entry), so
// any order of arrival ends in the same list.
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
    return {static_cast<std::uint32_t>(item >> entry_bits),
            static_cast<std::uint32_t>(item) & ((1u << entry_bits) - 1u)};
  }
};

/// Where the buckets lie in the list: 16 bits each, two to a word. Adding to one never carries into its neighbour. The
/// word before the first is zero, the end of no bucket, and the words are a whole number of 16-byte vectors.
struct BucketTable {
  std::uint32_t* words;
  int bits, shift;  ///< 2^bits buckets; the bucket of a slot is slot >> shift
  __device__ __forceinline__ int buckets() const { return 1 << bits; }
  __device__ __forceinline__ int vectors() const { return (buckets() + 7) / 8; }
  __device__ __forceinline__ int add_one(std::uint32_t slot) const {
    const std::uint32_t bucket = slot >> shift;
    return static_cast<int>((atomicAdd(words + bucket / 2, 1u << (16 * (bucket % 2))) >> (16 * (bucket % 2))) &
                            0xffffu);
  }
  /// One past the bucket's last item, once all items are placed.
  __device__ __forceinline__ int end(int bucket) const { return reinterpret_cast<const std::uint16_t*>(words)[bucket]; }
  __device__ __forceinline__ int begin(int bucket) const { return end(bucket - 1); }
};

__device__ __forceinline__ std::uint32_t both_halves(std::uint32_t word) { return (word & 0xffffu) + (word >> 16); }

/// Turns the buckets' counts into their begins, a run of vectors a thread. `totals`: 32 words.
template <typename Team>
__device__ __forceinline__ void bucket_begins(const Team& team, const BucketTable& table, std::uint32_t* totals) {
  auto* vectors = reinterpret_cast<uint4*>(table.words);
  const int run = (table.vectors() + team.threads - 1) / team.threads;
  const int first = team.thread * run, last = min(first + run, table.vectors());
  std::uint32_t sum = 0;
  for (int v = first; v < last; ++v) {
    const uint4 w = vectors[v];
    sum += both_halves(w.x) + both_halves(w.y) + both_halves(w.z) + both_halves(w.w);
  }
  const std::uint32_t inclusive = warp_inclusive_sum(sum);
  if (lane_id() == 31) totals[team.warp()] = inclusive;
  team.sync();
  std::uint32_t before = __reduce_add_sync(kWholeWarp, lane_id() < team.warp() ? totals[lane_id()] : 0u);
  before += inclusive - sum;
  for (int v = first; v < last; ++v) {
    uint4 w = vectors[v];
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

/// Up to four items by a network of five exchanges: no loop that some lanes run and others wait for.
template <typename T>
__device__ __forceinline__ void sort_four(T* items, int count) {
  constexpr T kNone = ~T{0};
  T a = items[0], b = items[1], c = count > 2 ? items[2] : kNone, d = count > 3 ? items[3] : kNone;
  const auto exchange = [](T& low, T& high) {
    const T smaller = min(low, high);
    high = max(low, high), low = smaller;
  };
  exchange(a, b), exchange(c, d), exchange(a, c), exchange(b, d), exchange(b, c);
  items[0] = a, items[1] = b;
  if (count > 2) items[2] = c;
  if (count > 3) items[3] = d;
}

template <typename T>
__device__ __forceinline__ void insertion_sort(T* items, int count) {
  for (int i = 1; i < count; ++i) {
    const T item = items[i];
    int at = i;
    for (; at > 0 && items[at - 1] > item; --at) items[at] = items[at - 1];
    items[at] = item;
  }
}

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

/// Most items of a bucket that one thread sorts, and that one warp sorts.
inline constexpr int kThreadItems = 16, kWarpItems = 1024;

/// What a sort needs in shared memory.
struct BucketScratch {
  std::uint16_t* long_buckets;  ///< [items / (kThreadItems + 1)]
  std::uint32_t* totals;        ///< [32]
  int* long_count;
};

/// Sorts every bucket of the placed items.
template <typename Team, typename Packed>
__device__ __forceinline__ void sort_buckets(const Team& team, const PackedList<Packed>& list, const BucketTable& table,
                                             const BucketScratch& scratch) {
  for (int bucket = team.thread; bucket < table.buckets(); bucket += team.threads) {
    const int begin = table.begin(bucket), count = table.end(bucket) - begin;
    if (count > kThreadItems)
      scratch.long_buckets[atomicAdd(scratch.long_count, 1)] = static_cast<std::uint16_t>(bucket);
    else if (count > 4)
      insertion_sort(list.items + begin, count);
    else if (count > 1)
      sort_four(list.items + begin, count);
  }
  team.sync();
  const int longs = *scratch.long_count;
  for (int n = team.warp(); n < longs; n += team.warps()) {
    const int begin = table.begin(scratch.long_buckets[n]), count = table.end(scratch.long_buckets[n]) - begin;
    if (count <= kWarpItems) bitonic_sort(list.items + begin, count, lane_id(), 32, [] { __syncwarp(); });
  }
  for (int n = 0; n < longs; ++n) {
    const int begin = table.begin(scratch.long_buckets[n]), count = table.end(scratch.long_buckets[n]) - begin;
    if (count > kWarpItems) bitonic_sort(list.items + begin, count, team.thread, team.threads, [&] { team.sync(); });
  }
}

/// Sorts the items (slot_of(entry), entry), entries 0 .. count-1. All threads of the team call it; it ends with a
/// barrier.
template <typename Team, typename Packed, typename SlotOf>
__device__ __forceinline__ void bucket_sort(const Team& team, const PackedList<Packed>& list, const BucketTable& table,
                                            const BucketScratch& scratch, int count, SlotOf&& slot_of) {
  constexpr int kBatch = 4;
  for (int v = team.thread; v < table.vectors(); v += team.threads)
    reinterpret_cast<uint4*>(table.words)[v] = make_uint4(0, 0, 0, 0);
  if (team.thread == 0) *scratch.long_count = 0, table.words[-1] = 0;
  team.sync();
  in_batches<kBatch>(team.thread, team.threads, count, slot_of, [&](int, std::uint32_t slot) { table.add_one(slot); });
  team.sync();
  bucket_begins(team, table, scratch.totals);
  in_batches<kBatch>(team.thread, team.threads, count, slot_of,
                     [&](int entry, std::uint32_t slot) { list.items[table.add_one(slot)] = list.pack(slot, entry); });
  team.sync();
  sort_buckets(team, list, table, scratch);
  team.sync();
}

}  // namespace sdm::device
