#pragma once
// What the variants of decay_sums share. Device code only.
#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/decay_sums/contract.h"
#include "kernels/decay_sums/decay_sums.h"

namespace sdm::decay_sums {

__device__ __forceinline__ int entry_at(std::uint32_t payload, int entries) {
  return token_of(payload) * entries + entry_of(payload);
}

/// decayed(x, 0): x, or the one NaN that a product gives.
__device__ __forceinline__ float times_one(float x) { return x == x ? x : float_of(0x7fffffffu); }

/// Records are read much later: they should leave L2 to what the next stages read.
__device__ __forceinline__ void store_record(Record* at, const Record& record) {
  __stcs(reinterpret_cast<uint4*>(at), *reinterpret_cast<const uint4*>(&record));
}

/// The payload of the last member with token <= `token` of the write group whose payloads begin at `first`, 0 where
/// there is none. Members have ascending tokens, and member m lies at distance m: both fail for good past the end, so a
/// binary search finds the last. `left`: valid positions from `first` on.
__device__ __forceinline__ std::uint32_t last_member(const std::uint32_t* first, int token, int left) {
  std::uint32_t found = first[0];
  if (token_of(found) > token) return 0;
  if ((found & kLast) != 0) return found;
  int known = 0, bound = min(token + 1, left);  // tokens differ: member m has token >= m
  while (known + 1 < bound) {
    const int m = (known + 1 + bound) / 2;
    const std::uint32_t payload = first[m];
    if (distance_of(payload) == m && token_of(payload) <= token)
      known = m, found = payload;
    else
      bound = m;
  }
  return found;
}

}  // namespace sdm::decay_sums
