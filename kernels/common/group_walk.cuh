#pragma once
// Record windows of a warp in shared memory. Device code only; ownership is in group_span.h.
#include "kernels/common/group_span.h"
#include "kernels/common/rows.cuh"

namespace sdm::device {

/// FIRST and LAST bits of a window of 32 records.
struct RecordWindow {
  unsigned first = 0, last = 0;
  int count = 0;  ///< valid positions of the window
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
  return {first, last, valid - 32 * w < 32 ? valid - 32 * w : 32};
}

}  // namespace sdm::device
