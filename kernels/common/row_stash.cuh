#pragma once
// A copy of bank rows that a kernel of row sums (row_sum.cuh) makes on its way: a row an entry, or one a group. Device
// code but for stash_at.
#include "kernels/common/row_sum.cuh"

namespace sdm::device {

/// Where the write rows of the step are copied to; pointers are moved to the step's first row.
struct StashTarget {
  char* rows = nullptr;  ///< [P*n, D]
  GroupPlaces place;     ///< of the writes; null: a row an entry
  std::int32_t writes = 0, chunk = 0;
};

/// Moves the target of step 0 to `step`; rows have `row_bytes`.
SDM_HD StashTarget stash_at(StashTarget stash, int step, int streams, std::int64_t row_bytes) {
  const int n = stash.chunk * stash.writes;
  const std::int64_t chunk = std::int64_t{step} * streams;
  stash.rows += chunk * n * row_bytes;
  if (stash.place.position) {
    stash.place.position += chunk * n, stash.place.payload += chunk * n;
    stash.place.window += chunk * window_count(n);
  }
  return stash;
}

/// The row in group order, relative to the step, of this lane's write entry `at` (-1: none); -1 unless it is the FIRST
/// of its group. The 32 payloads of an entry's window are read by the whole warp, one entry after the other.
__device__ __forceinline__ int dense_row(const StashTarget& stash, int at) {
  const int lane = static_cast<int>(threadIdx.x & 31u);
  const int n = stash.chunk * stash.writes;
  const int chunk = at < 0 ? 0 : at / n;
  const int position = at < 0 ? -1 : stash.place.position[at];
  const int before =
      at < 0 ? 0 : stash.place.window[static_cast<std::int64_t>(chunk) * window_count(n) + position / 32].groups_before;
  int row = -1;
#pragma unroll 4
  for (int holder = 0; holder < 32; ++holder) {
    const int its_position = __shfl_sync(kWholeWarp, position, holder);
    const int its_chunk = __shfl_sync(kWholeWarp, chunk, holder);
    const int bit = its_position & 31;
    const bool needed = its_position >= 0 && lane <= bit;
    const std::uint32_t payload = needed ? stash.place.payload[its_chunk * n + its_position - bit + lane] : 0u;
    const unsigned firsts = __ballot_sync(kWholeWarp, (payload & kFirst) != 0u);
    if (lane == holder && ((firsts >> bit) & 1u) != 0u) row = chunk * n + before + __popc(firsts & ((1u << bit) - 1u));
  }
  return row;
}

/// Copies the rows that pass by to the stash; every part's owner writes the rows that it reads.
template <typename Row, bool kStash>
struct StashVisitor {
  const StashTarget& stash;
  const RowPlan& plan;
  const RowPlace& place;
  const RowColumns& columns;
  char* base;     ///< the stash, moved to the lane's first column
  bool active;    ///< this CTA works on the writes; the same for the whole CTA, so that shuffles stay convergent
  int mine = -1;  ///< step-relative stash row of the entry that this lane holds

  __device__ void hold(int entry) {
    if constexpr (kStash) {
      if (!active) return;
      const int at = place.valid && entry < stash.writes ? place.token * stash.writes + entry : -1;
      mine = stash.place.position ? dense_row(stash, at) : at;
    }
  }
  __device__ void row(int, int holder, const typename Row::Raw& raw, const float (&)[Row::kElements], int) {
    if constexpr (kStash) {
      if (!active) return;
      const int row = __shfl_sync(kWholeWarp, mine, holder, plan.lanes());
      if (row >= 0 && columns.inside) store_once(base + wide_product(row, columns.row_bytes), raw);
    }
  }

 private:
  /// Nobody reads the stash before the backward: it should leave L2 to the bank.
  __device__ static void store_once(char* p, const uint4& raw) { __stcs(reinterpret_cast<uint4*>(p), raw); }
  template <typename T>
  __device__ static void store_once(char* p, const T& raw) {
    *reinterpret_cast<T*>(p) = raw;
  }
};

}  // namespace sdm::device
