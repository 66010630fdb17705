#pragma once
// The records of a row walk (row_walk.cuh): which tile a warp has, and its records on their way through shared memory.
// Device code only.
#include "kernels/common/row_walk.h"
#include "kernels/common/rows.cuh"

namespace sdm::device {

/// The part of the work that this warp does.
struct WalkPlace {
  int lane, warp, part, slice;
  int group;     ///< slices of the CTA; neighbouring warps walk neighbouring ones
  int in_group;  ///< slice among the CTA's
  int rank;      ///< of the warp among those of its slice
  std::int64_t chunk;
  int begin, end;  ///< tile, clamped to the valid positions

  __device__ WalkPlace(const Dims& dims, int step, int valid, const WalkShape& shape, int group_)
      : WalkPlace(std::int64_t{step} * dims.streams, static_cast<int>(blockIdx.x), valid, shape, group_) {}
  /// `block`: counts over (stream, slice group, part) from the stream of chunk `first_chunk` on. `group_`: the shape's;
  /// a kernel that never groups leaves it a constant.
  __device__ WalkPlace(std::int64_t first_chunk, int block, int valid, const WalkShape& shape, int group_ = 1)
      : group(group_) {
    lane = static_cast<int>(threadIdx.x) % kLanes;
    warp = static_cast<int>(threadIdx.x) / kLanes;
    part = block % shape.parts;
    in_group = warp % group, rank = warp / group;
    slice = block / shape.parts % (shape.slices / group) * group + in_group;
    chunk = first_chunk + block / shape.parts / (shape.slices / group);
    begin = min((part * (shape.warps / group) + rank) * shape.tile, valid);
    end = min(begin + shape.tile, valid);
  }
};

/// Marks a position of a unit that belongs to another tile: no FIRST, no LAST, token 0, no dot to store.
inline constexpr std::uint32_t kNotOurs = kInvalid;

/// The records of a warp's tile, streamed through shared memory one block of 32 ahead. Units begin at multiples of
/// kWalkUnit, as tiles do, so that no unit straddles two blocks. All calls are made by the whole warp.
class RecordFeed {
 public:
  __device__ RecordFeed(const Record* chunk_records, Record* ring, const WalkPlace& place, int valid)
      : records_(chunk_records), ring_(ring), lane_(place.lane), bounds_(place.begin, place.end, valid) {
    if (bounds_.stop == TileBounds::kUnknown) fetch();
    while (bounds_.first == TileBounds::kUnknown) absorb();
  }
  /// The first unit.
  __device__ int begin() const { return bounds_.first & ~(kWalkUnit - 1); }
  /// One past the last position; unknown (huge) until its record was reached.
  __device__ int stop() const { return bounds_.stop; }

  /// Makes the records of the unit at `position` readable. At most kWalkRecords - 32 positions may lie between the
  /// oldest record still in use and the unit's end.
  __device__ void reach(int position) {
    while (bounds_.stop == TileBounds::kUnknown && bounds_.next <= position) absorb();
  }
  /// One past the last position whose record is readable, as far as positions are this warp's.
  __device__ int known() const { return min(bounds_.next, bounds_.stop); }
  /// The kWalkUnit records of a reached unit that begins before stop(); those outside [first, stop) are kNotOurs.
  __device__ const uint4* unit(int position) const {
    return reinterpret_cast<const uint4*>(ring_ + static_cast<unsigned>(position) % kWalkRecords);
  }

 private:
  __device__ void fetch() {
    const int position = bounds_.next + lane_;
    ahead_ = position < bounds_.valid ? load_stream(records_ + position) : uint4{0, 0, 0, 0};
  }
  __device__ void absorb() {
    const int position = bounds_.next + lane_;
    uint4 record = ahead_;
    bounds_.take_block(__ballot_sync(0xffffffffu, (record.x & kFirst) != 0u));
    if (position < bounds_.first || position >= bounds_.stop) record.x = kNotOurs;
    __syncwarp();  // every lane is done with the records that this block replaces
    reinterpret_cast<uint4*>(ring_)[static_cast<unsigned>(position) % kWalkRecords] = record;
    __syncwarp();
    if (bounds_.stop == TileBounds::kUnknown) fetch();
  }

  const Record* records_;
  Record* ring_;
  int lane_;
  TileBounds bounds_;
  uint4 ahead_ = {0, 0, 0, 0};
};

__device__ __forceinline__ Record record_of(const uint4& raw) {
  return {raw.x, static_cast<std::int32_t>(raw.y), __uint_as_float(raw.z), __uint_as_float(raw.w)};
}

/// A record's payload and slot.
__device__ __forceinline__ uint2 head_of(const uint4& record) { return *reinterpret_cast<const uint2*>(&record); }

/// Ordinal of the first group that begins at or after the tile's begin. Its loads leave where it is made, and are
/// waited for in value(): other loads go between.
class FirstOrdinal {
 public:
  __device__ FirstOrdinal(const Record* records, const Window* windows, const WalkPlace& place) {
    if (place.begin >= place.end) return;
    const int window = place.begin / 32;
    before_ = windows[window].groups_before;
    if (32 * window + place.lane < place.begin) payload_ = records[32 * window + place.lane].payload;
  }
  __device__ __forceinline__ int value() const {
    return before_ + __popc(__ballot_sync(0xffffffffu, (payload_ & kFirst) != 0u));
  }

 private:
  int before_ = 0;
  std::uint32_t payload_ = 0;
};

}  // namespace sdm::device
