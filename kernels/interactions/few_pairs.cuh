#pragma once
// Chunks with few pairs: the entries that have some are found in sorted order and listed, and a thread makes the pairs
// of an entry. A cell with one pair is done then; of the others the thread of their first pair adds all, in the order
// of their entries. Device code only.
#include "kernels/interactions/pairs.cuh"

namespace sdm::interactions {

/// An entry with pairs. kInvalid, which no listed entry has, marks a read.
struct ListedEntry {
  std::uint32_t payload;
  std::uint32_t members;  ///< sorted positions of the writes: first | end << 16
};
/// A term of a cell: both factors, and cell << 8 | entry, by which the terms of a cell are ordered.
struct FoundPair {
  float factor, k;
  std::uint32_t key;
};

/// Most that a chunk may have; where it has more, its rows are made by warps. Multiples of four.
struct FewLayout {
  int entries, pairs;
  int cell_words;  ///< of a bit a cell, A and QK
};
SDM_HD std::size_t few_bytes(const FewLayout& l) {
  return 16 + 8 * static_cast<std::size_t>(l.cell_words) + sizeof(ListedEntry) * static_cast<std::size_t>(l.entries) +
         sizeof(FoundPair) * static_cast<std::size_t>(l.pairs);
}

/// The lists of a chunk, in shared memory.
struct FewPairs {
  FewLayout most;
  int *entries, *more, *crowded;           ///< counts: pairs are one an entry, and `more`
  std::uint32_t *occupied, *shared_cells;  ///< bits: a pair, or several, lie in the cell
  ListedEntry* entry;
  FoundPair* pair;

  __device__ __forceinline__ FewPairs(unsigned char* at, const FewLayout& layout)
      : most(layout),
        entries(reinterpret_cast<int*>(at)),
        more(entries + 1),
        crowded(entries + 2),
        occupied(reinterpret_cast<std::uint32_t*>(entries + 4)),
        shared_cells(occupied + layout.cell_words),
        entry(reinterpret_cast<ListedEntry*>(shared_cells + layout.cell_words)),
        pair(reinterpret_cast<FoundPair*>(entry + layout.entries)) {}
  /// Counts and bits.
  __device__ __forceinline__ void clear() const {
    for (int i = static_cast<int>(threadIdx.x); i < 4 + 2 * most.cell_words; i += static_cast<int>(blockDim.x))
      entries[i] = 0;
  }
  __device__ __forceinline__ bool is_shared(int cell) const {
    return (shared_cells[cell / 32] >> (cell % 32) & 1u) != 0;
  }
  __device__ __forceinline__ void put(int at, const FoundPair& found) const {
    if (at < most.pairs) pair[at] = found;
    const int cell = static_cast<int>(found.key >> 8);
    const std::uint32_t bit = 1u << (cell % 32);
    if ((atomicOr(occupied + cell / 32, bit) & bit) != 0) atomicOr(shared_cells + cell / 32, bit);
  }
};

inline constexpr std::uint32_t kNobody = ~0u;  // no payload

/// Lists up to four entries a lane, those whose payload is not kNobody. Whole warps.
__device__ __forceinline__ void list_entries(const FewPairs& few, const ListedEntry (&mine)[4]) {
  unsigned bits[4];
  int total = 0;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    bits[j] = __ballot_sync(device::kWholeWarp, mine[j].payload != kNobody);
    total += __popc(bits[j]);
  }
  if (total == 0) return;
  int at = device::lane_id() == 0 ? atomicAdd(few.entries, total) : 0;
  at = __shfl_sync(device::kWholeWarp, at, 0);
  const unsigned below = (1u << device::lane_id()) - 1u;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    const int place = at + __popc(bits[j] & below);
    if (mine[j].payload != kNobody && place < few.most.entries) few.entry[place] = mine[j];
    at += __popc(bits[j]);
  }
}

/// Writes that are not the first of their group, of `count` sorted payloads in shared memory.
__device__ __forceinline__ void list_writes(const FewPairs& few, const std::uint32_t* payload, int count) {
#pragma unroll 1
  for (int i = 4 * static_cast<int>(threadIdx.x); i - 4 * device::lane_id() < count;
       i += 4 * static_cast<int>(blockDim.x)) {
    const uint4 four = i < count ? *reinterpret_cast<const uint4*>(payload + i) : uint4{};
    const std::uint32_t own[4] = {four.x, four.y, four.z, four.w};
    ListedEntry mine[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int distance = distance_of(own[j]), at = i + j;
      mine[j] = {distance > 0 ? own[j] : kNobody, static_cast<std::uint32_t>(at - distance | at << 16)};
    }
    list_entries(few, mine);
  }
}

/// Reads whose slot has a write of their token or an earlier one. `match`: of positions i .. i + 3.
__device__ __forceinline__ void list_reads(const FewPairs& few, const std::uint32_t* writes, int write_count,
                                           const std::uint32_t* reads, int i, const int4& match) {
  const int first[4] = {match.x, match.y, match.z, match.w};
  ListedEntry mine[4];
#pragma unroll
  for (int j = 0; j < 4; ++j) mine[j].payload = first[j] >= 0 ? reads[i + j] : kNobody;
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (first[j] < 0) continue;
    const bool any = token_of(writes[first[j]]) <= token_of(mine[j].payload);
    mine[j] = {any ? mine[j].payload | kInvalid : kNobody, static_cast<std::uint32_t>(first[j] | write_count << 16)};
  }
  list_entries(few, mine);
}

/// The pairs of one listed entry, its first one to place x of the list. log_k and log_q are not read: they lie in
/// memory a sector a pair, and the sums of the gates are the same bits (22 us at default on an H200, 25 with loads).
template <typename GateOf>
__device__ __forceinline__ void make_pairs(const Params& p, const FewPairs& few, std::int64_t write_at,
                                           std::int64_t read_at, const std::uint32_t* payload, int x, int entries,
                                           GateOf&& gate_of) {
  const ListedEntry listed = few.entry[x];
  const std::uint32_t own = listed.payload;
  const bool of_reads = (own & kInvalid) != 0;
  const int token = token_of(own), end = static_cast<int>(listed.members >> 16), c = p.dims.chunk;
  const int row = (of_reads ? c * c : 0) + token * c;
  const auto entry_at = [&](std::uint32_t member, int count) { return token_of(member) * count + entry_of(member); };
  const float strength = of_reads ? device::value_at(p.q, read_at + entry_at(own, p.dims.reads))
                                  : device::value_at(p.k, write_at + entry_at(own, p.dims.writes));
  int m = static_cast<int>(listed.members & 0xffffu);
  std::uint32_t member = payload[m];
  float k = device::value_at(p.k, write_at + entry_at(member, p.dims.writes));
  float log_k = gate_of(member), log_x = log_k;
  // log_x is the sum up to the own entry (of a write, position `end`), or to the last member that the read sees.
  std::uint32_t later = member;
  for (int n = m + 1; (later & kLast) == 0 && n <= end; ++n) {
    later = payload[n];
    if (token_of(later) > token) break;
    log_x = log_x + gate_of(later);
  }
#pragma unroll 1
  for (int place = x;; place = entries + atomicAdd(few.more, 1)) {
    few.put(place,
            {pair_factor(strength, log_x, log_k), k,
             static_cast<std::uint32_t>(row + token_of(member)) << 8 | static_cast<std::uint32_t>(entry_of(own))});
    if ((member & kLast) != 0 || ++m >= end) break;
    member = payload[m];
    if (token_of(member) > token) break;
    k = device::value_at(p.k, write_at + entry_at(member, p.dims.writes));
    log_k = log_k + gate_of(member);
  }
}

/// The fold of all terms of the cell of `own` among `count`, by ascending key; false where `own` is not the first.
__device__ __forceinline__ bool fold_cell(const FoundPair* terms, int count, std::uint32_t own, float& sum) {
  std::uint32_t low = own & ~255u;
  const std::uint32_t high = low | 255u;
  sum = 0.0f;
  while (true) {
    std::uint32_t next = ~0u;  // the smallest key from `low` on
    int at = 0;
#pragma unroll 4
    for (int y = 0; y < count; ++y) {
      const std::uint32_t key = terms[y].key;
      if (key >= low && key <= high && key < next) next = key, at = y;
    }
    if (next < own) return false;
    if (next == ~0u) return true;
    sum = fma_rn(terms[at].factor, terms[at].k, sum);
    low = next + 1;
  }
}

/// Stores the cells of all pairs. Terms of shared cells are gathered first, where the list of entries was.
__device__ __forceinline__ void store_cells(const Params& p, std::int64_t chunk, const FewPairs& few, int pairs) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const int cells = p.dims.chunk * p.dims.chunk;
  const auto store = [&](int cell, float sum) {
    (cell < cells ? p.a + chunk * cells : p.qk + (chunk - 1) * cells)[cell] = sum;
  };
  auto* gathered = reinterpret_cast<FoundPair*>(few.entry);
  const int most = few.most.entries * static_cast<int>(sizeof(ListedEntry)) / static_cast<int>(sizeof(FoundPair));
  for (int x = thread; x < pairs; x += threads) {
    const FoundPair pair = few.pair[x];
    const int cell = static_cast<int>(pair.key >> 8);
    if (!few.is_shared(cell)) {
      store(cell, fma_rn(pair.factor, pair.k, 0.0f));
    } else {
      const int at = atomicAdd(few.crowded, 1);
      if (at < most) gathered[at] = pair;
    }
  }
  __syncthreads();
  const bool all = *few.crowded > most;  // then look through all pairs
  const FoundPair* terms = all ? few.pair : gathered;
  const int count = all ? pairs : *few.crowded;
  for (int x = thread; x < count; x += threads) {
    const std::uint32_t own = terms[x].key;
    float sum;
    if ((!all || few.is_shared(static_cast<int>(own >> 8))) && fold_cell(terms, count, own, sum))
      store(static_cast<int>(own >> 8), sum);
  }
}

}  // namespace sdm::interactions
