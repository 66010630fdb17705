#pragma once
// Record windows of a warp in shared memory. Device code only; ownership is in group_span.h.
#include "kernels/common/group_span.h"
#include "kernels/common/rows.cuh"

namespace sdm::device {

/// 32 records of a chunk in the warp's table in shared memory, with the window's FIRST and LAST bits.
struct RecordWindow {
  const Record* table;
  unsigned first = 0, last = 0;
  int count = 0;  ///< valid positions of the window

  __device__ __forceinline__ bool is_first(int i) const { return ((first >> (i & 31)) & 1u) != 0; }
  /// A group ends at position i, which lies below `end`.
  __device__ __forceinline__ bool ends_at(int i, int end) const { return i < end && ((last >> (i & 31)) & 1u) != 0; }
};

/// The lane's record of window `w`; positions past the valid ones are not read and hold zeros.
__device__ __forceinline__ uint4 load_record(const Record* record, int w, int valid) {
  const int position = 32 * w + static_cast<int>(threadIdx.x & 31);
  return position < valid ? load_stream(record + position) : uint4{0, 0, 0, 0};
}
/// Fills the warp's table [32] with the lanes' records of window `w`. Called by the whole warp; ends what it read
/// before.
__device__ __forceinline__ RecordWindow record_window(Record* table, const uint4& record, int w, int valid) {
  __syncwarp();
  reinterpret_cast<uint4*>(table)[threadIdx.x & 31] = record;
  const unsigned first = __ballot_sync(~0u, (record.x & kFirst) != 0);
  const unsigned last = __ballot_sync(~0u, (record.x & kLast) != 0);
  __syncwarp();
  return {table, first, last, valid - 32 * w < 32 ? valid - 32 * w : 32};
}

}  // namespace sdm::device
