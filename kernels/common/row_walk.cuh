#pragma once
// The row walk of undo and read_grad: a warp owns the groups that begin in a tile of sorted positions, for one column
// slice, lane l holding columns 4l .. 4l+3. The groups' rows come through a ring in shared memory, `units` units of
// kWalkUnit positions ahead (cp.async; a lane reads back only what it copied itself, so the ring needs no barrier).
// Token rows of the slice are staged once per CTA. Device code only.
#include "kernels/common/async_copy.cuh"
#include "kernels/common/launch.h"
#include "kernels/common/quads.cuh"
#include "kernels/common/row_walk.h"

namespace sdm::device {

/// Threads of a CTA at most; one CTA per multiprocessor. Element accesses (kVector false) want more registers.
template <bool kVector>
inline constexpr int kWalkThreads = kLanes* walk_warps(kVector);

/// The part of the work that this warp does.
struct WalkPlace {
  int lane, warp, part, slice;
  std::int64_t chunk;
  int begin, end;  ///< tile, clamped to the valid positions

  __device__ WalkPlace(const Dims& dims, int step, int valid, const WalkShape& shape) {
    lane = static_cast<int>(threadIdx.x) % kLanes;
    warp = static_cast<int>(threadIdx.x) / kLanes;
    const int block = static_cast<int>(blockIdx.x);
    part = block % shape.parts;
    slice = block / shape.parts % shape.slices;
    chunk = std::int64_t{step} * dims.streams + block / shape.parts / shape.slices;
    begin = min((part * shape.warps + warp) * shape.tile, valid);
    end = min(begin + shape.tile, valid);
  }
};

/// A CTA's shared memory, see walk_shared_bytes.
struct WalkMemory {
  float* tokens;  ///< [chunk, stride] where staged
  float* zeros;   ///< a quad
  float* beta;    ///< [chunk]
  Record* records;
  std::uint8_t* ring;

  __device__ WalkMemory(uint4* memory, const WalkShape& shape, int chunk, int slot_bytes, int warp) {
    tokens = reinterpret_cast<float*>(memory);
    zeros = tokens + walk_token_floats(shape, chunk);
    beta = zeros + 4;
    auto* rest = reinterpret_cast<std::uint8_t*>(tokens + walk_header_floats(shape, chunk));
    const int ring_bytes = walk_ring_bytes(shape.units, slot_bytes);
    records = reinterpret_cast<Record*>(rest) + warp * kWalkRecords;
    ring = rest + static_cast<int>(sizeof(Record)) * kWalkRecords * shape.warps + warp * ring_bytes;
  }
};

/// The records of a warp's tile, streamed through shared memory one block of 32 ahead. All calls are made by the whole
/// warp.
class RecordFeed {
 public:
  __device__ RecordFeed(const Record* chunk_records, Record* ring, const WalkPlace& place, int valid)
      : records_(chunk_records), ring_(ring), lane_(place.lane), bounds_(place.begin, place.end, valid) {
    if (bounds_.stop == TileBounds::kUnknown) fetch();
    while (bounds_.first == TileBounds::kUnknown) absorb();
  }
  __device__ int first() const { return bounds_.first; }
  /// One past the last position; unknown (huge) until its record was reached.
  __device__ int stop() const { return bounds_.stop; }

  /// Makes the records before `limit` readable. At most kWalkRecords - 32 positions may lie between the oldest record
  /// still in use and `limit`.
  __device__ void reach(int limit) {
    while (bounds_.stop == TileBounds::kUnknown && bounds_.next < limit) absorb();
  }
  /// Record of a reached position. Past stop() it is not a record: its payload is 0 (no FIRST, no LAST, token 0), the
  /// rest is of no meaning.
  __device__ Record at(int position) const {
    const uint4 raw = reinterpret_cast<const uint4*>(ring_)[static_cast<unsigned>(position) % kWalkRecords];
    return {position < bounds_.stop ? raw.x : 0u, static_cast<std::int32_t>(raw.y), __uint_as_float(raw.z),
            __uint_as_float(raw.w)};
  }

 private:
  __device__ void fetch() {
    const int position = bounds_.next + lane_;
    if (position < bounds_.valid) ahead_ = load_stream(records_ + position);
  }
  __device__ void absorb() {
    const int position = bounds_.next + lane_;
    __syncwarp();  // every lane is done with the records that this block replaces
    if (position < bounds_.valid)
      reinterpret_cast<uint4*>(ring_)[static_cast<unsigned>(position) % kWalkRecords] = ahead_;
    const bool first = position < bounds_.valid && (ahead_.x & kFirst) != 0u;
    bounds_.take_block(__ballot_sync(0xffffffffu, first));
    __syncwarp();
    if (bounds_.stop == TileBounds::kUnknown) fetch();
  }

  const Record* records_;
  Record* ring_;
  int lane_;
  TileBounds bounds_;
  uint4 ahead_ = {0, 0, 0, 0};
};

/// Ordinal of the first group that begins at or after the tile's begin.
__device__ __forceinline__ int first_ordinal(const Record* records, const Window* windows, const WalkPlace& place) {
  if (place.begin >= place.end) return 0;
  const int window = place.begin / 32;
  const bool first =
      32 * window + place.lane < place.begin && (records[32 * window + place.lane].payload & kFirst) != 0u;
  return windows[window].groups_before + __popc(__ballot_sync(0xffffffffu, first));
}

/// A lane's quads of the chunk's token rows, from shared or global memory. Columns past the slice are +0.
template <bool kVector>
struct TokenRows {
  const float* shared_quad;
  int shared_stride;
  const float* global_quad;
  int head_dim, columns;
  bool staged;

  /// `rows`: [chunk, D]. Starts the copies of `tokens` rows (a barrier must follow them).
  __device__ TokenRows(const float* rows, int tokens, int row_length, const ColumnSlice& slice, const WalkPlace& place,
                       const WalkMemory& memory, const WalkShape& shape)
      : head_dim(row_length), columns(quad_columns(slice, place.lane)), staged(shape.staged) {
    shared_quad = columns > 0 ? memory.tokens + 4 * place.lane : memory.zeros;
    shared_stride = columns > 0 ? shape.stride : 0;
    global_quad = rows + slice.begin + 4 * place.lane;
    if (threadIdx.x < 4) memory.zeros[threadIdx.x] = 0.0f;
    if (staged && columns > 0)
      for (int token = place.warp; token < tokens; token += shape.warps) stage(token, memory.tokens + 4 * place.lane);
    commit_copies();
  }
  __device__ void load(int token, float (&x)[4]) const {
    if (staged)
      widen_quad(*reinterpret_cast<const uint4*>(shared_quad + token * shared_stride), x);
    else
      load_global(token, x);
  }

 private:
  __device__ void stage(int token, float* lane_quads) const {
    float* target = lane_quads + token * shared_stride;
    if constexpr (kVector) {
      copy_async<16>(target, global_quad + std::int64_t{token} * head_dim, 16);
    } else {
      float x[4];
      load_global(token, x);
#pragma unroll
      for (int i = 0; i < 4; ++i) target[i] = x[i];
    }
  }
  __device__ void load_global(int token, float (&x)[4]) const {
    const float* quad = global_quad + std::int64_t{token} * head_dim;
    if constexpr (kVector) {
      uint4 bits = {0, 0, 0, 0};
      if (columns > 0) bits = *reinterpret_cast<const uint4*>(quad);
      widen_quad(bits, x);
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = i < columns ? quad[i] : 0.0f;
    }
  }
};

/// Brings a lane's `kBytes` of a row into its ring cell: `present` bytes from `from`, zeros after them. Whole and
/// asynchronous where rows are made of whole quads (kVector: `present` is kBytes or 0), else in elements of kElement
/// bytes.
template <bool kVector, int kBytes, int kElement>
__device__ __forceinline__ void fill_cell(std::uint8_t* cell, const std::uint8_t* from, int present) {
  if constexpr (kVector) {
    copy_async<kBytes>(cell, from, present);
  } else {
    using Element = std::conditional_t<kElement == 4, std::uint32_t,
                                       std::conditional_t<kElement == 2, std::uint16_t, std::uint8_t>>;
#pragma unroll
    for (int i = 0; i < kBytes / kElement; ++i)
      reinterpret_cast<Element*>(cell)[i] =
          i * kElement < present ? reinterpret_cast<const Element*>(from)[i] : Element{0};
  }
}

/// The walk itself. Body: issue(record, slot) starts the copies of a group's rows into ring slot `slot`;
/// consume(feed, position, slot) handles the unit of positions whose rows lie in slots slot .. slot+kWalkUnit-1. Every
/// thread of the CTA calls this once, after it has started (and committed as one group) its share of the token rows.
template <typename Body>
__device__ __forceinline__ void walk_rows(Body& body, RecordFeed& feed, int units) {
  int ahead = feed.first();
  const auto issue_unit = [&](int slot) {
    feed.reach(ahead + kWalkUnit);
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) {
      const Record record = feed.at(ahead + i);
      if ((record.payload & kFirst) != 0u) body.issue(record, slot + i);
    }
    commit_copies();
    ahead += kWalkUnit;
  };
  for (int unit = 0; unit < units; ++unit) issue_unit(unit * kWalkUnit);
  wait_copies_but(units);  // this thread's token rows are there, and with the barrier everyone's
  __syncthreads();
  int slot = 0;
  for (int position = feed.first(); position < feed.stop(); position += kWalkUnit) {
    wait_copies_but(units - 1);
    body.consume(feed, position, slot);
    issue_unit(slot);
    slot = (slot + kWalkUnit) & (units * kWalkUnit - 1);
  }
}

/// Zeroes the padding entries of this CTA's (chunk, slice) of one plane array [slices, N, n].
__device__ __forceinline__ void clear_padding(float* plane_chunk, int valid, int positions, const WalkPlace& place,
                                              const WalkShape& shape) {
  const int threads = static_cast<int>(blockDim.x);
  for (int e = valid + place.part * threads + static_cast<int>(threadIdx.x); e < positions; e += shape.parts * threads)
    plane_chunk[e] = 0.0f;
}

}  // namespace sdm::device
