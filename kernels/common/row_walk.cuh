#pragma once
// The row walk of undo and read_grad: a warp owns the groups that begin in a tile of sorted positions, for one column
// slice, lane l holding columns 4l .. 4l+3. The groups' rows come through a ring in shared memory, `units` units of
// kWalkUnit positions ahead (cp.async; a lane reads back only what it copied itself, except where rows come in pieces).
// The CTA's slices of the token rows are staged once (row_stage.cuh). Device code only.
#include "kernels/common/async_copy.cuh"
#include "kernels/common/launch.h"
#include "kernels/common/prefetch.cuh"
#include "kernels/common/quads.cuh"
#include "kernels/common/row_stage.cuh"
#include "kernels/common/walk_records.cuh"

namespace sdm::device {

/// Threads of a CTA at most; one CTA per multiprocessor. Element accesses (kVector false) want more registers.
template <bool kVector>
inline constexpr int kWalkThreads = kLanes* walk_warps(kVector);

/// A CTA's shared memory, see walk_shared_bytes.
struct WalkMemory {
  float* tokens;           ///< [chunk, group * stride] where staged: the slices of a token side by side, as in memory
  float* zeros;            ///< a quad, zeroed here
  std::uint64_t* barrier;  ///< of the token rows' stage
  float* beta;             ///< [chunk]
  Record* records;
  std::uint8_t* ring;

  __device__ WalkMemory(uint4* memory, const WalkShape& shape, int chunk, int slot_bytes, const WalkPlace& place) {
    tokens = reinterpret_cast<float*>(memory);
    zeros = tokens + walk_token_floats(shape, chunk, place.group);
    barrier = reinterpret_cast<std::uint64_t*>(zeros + 4);
    beta = zeros + 8;
    auto* rest = reinterpret_cast<std::uint8_t*>(tokens + walk_header_floats(shape, chunk, place.group));
    const int ring_bytes = walk_ring_bytes(shape.units, slot_bytes);
    records = reinterpret_cast<Record*>(rest) + place.warp * kWalkRecords;
    ring = rest + static_cast<int>(sizeof(Record)) * kWalkRecords * shape.warps + place.warp * ring_bytes;
    if (threadIdx.x < 4) zeros[threadIdx.x] = 0.0f;
  }
};

/// Row `row` (not negative) of rows `row_bytes` apart: one 32 x 32 -> 64 bit multiply-add.
template <typename T>
__device__ __forceinline__ T* row_at(T* base, int row, std::uint32_t row_bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const std::uint8_t, std::uint8_t>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(base) +
                              static_cast<std::uint64_t>(static_cast<std::uint32_t>(row)) * row_bytes);
}

/// Keeps a sum of addresses in registers: it is otherwise taken apart and added again for every row.
template <typename T>
__device__ __forceinline__ void keep(T*& p) {
  asm("" : "+l"(p));
}

/// The CTA's slices of `tokens` token rows. `rows`: [chunk, D].
__device__ __forceinline__ RowBlock token_block(const float* rows, int tokens, int head_dim, const WalkPlace& place,
                                                const WalkMemory& memory, const WalkShape& shape) {
  const int stride = place.group * shape.stride, begin = (place.slice - place.in_group) * shape.stride;
  return {memory.tokens, rows + begin, tokens, min(stride, head_dim - begin), head_dim, stride};
}

/// A lane's quads of the chunk's token rows, from shared or global memory. Columns past the slice are +0.
template <bool kVector>
struct TokenRows {
  const float* shared_quad;     ///< a quad of zeros for lanes past the slice
  std::uint32_t shared_stride;  ///< bytes, 0 for lanes past the slice
  const float* global_quad;
  std::uint32_t row_bytes;
  int columns;
  bool staged;

  /// `rows`: [chunk, D].
  __device__ TokenRows(const float* rows, int head_dim, const ColumnSlice& slice, const WalkPlace& place,
                       const WalkMemory& memory, const WalkShape& shape)
      : global_quad(rows + slice.begin + 4 * place.lane),
        row_bytes(static_cast<std::uint32_t>(head_dim) * 4u),
        columns(quad_columns(slice, place.lane)),
        staged(shape.staged) {
    shared_quad = columns > 0 ? memory.tokens + place.in_group * shape.stride + 4 * place.lane : memory.zeros;
    shared_stride = columns > 0 ? static_cast<std::uint32_t>(place.group * shape.stride) * 4u : 0u;
  }
  /// The quads of a unit's tokens.
  __device__ void load(const Record (&record)[kWalkUnit], float (&x)[kWalkUnit][4]) const {
    if (staged) {
#pragma unroll
      for (int i = 0; i < kWalkUnit; ++i) load_shared(token_of(record[i].payload), x[i]);
    } else {
#pragma unroll
      for (int i = 0; i < kWalkUnit; ++i) load_global(token_of(record[i].payload), x[i]);
    }
  }

 private:
  __device__ void load_shared(int token, float (&x)[4]) const {
    const auto* quad =
        reinterpret_cast<const std::uint8_t*>(shared_quad) + static_cast<std::uint32_t>(token) * shared_stride;
    widen_quad(*reinterpret_cast<const uint4*>(quad), x);
    if constexpr (!kVector)
#pragma unroll
      for (int i = 0; i < 4; ++i) x[i] = i < columns ? x[i] : 0.0f;
  }
  __device__ void load_global(int token, float (&x)[4]) const {
    const float* quad = row_at(global_quad, token, row_bytes);
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

/// Zeroes the ring of a lane past the slice: it copies nothing, so its cells stay +0. `slot_bytes` per position and
/// lane.
__device__ __forceinline__ void clear_ring(std::uint8_t* ring, int slots, int slot_bytes, int lane) {
  for (int word = lane; word < slots * kLanes * slot_bytes / 4; word += kLanes)
    reinterpret_cast<std::uint32_t*>(ring)[word] = 0u;
  __syncwarp();
}

/// Where `on`, brings a lane's `kBytes` of a row into its ring cell: whole and asynchronous where rows are made of
/// whole quads (kVector; not for lanes past the slice), else `present` bytes in elements of kElement bytes, zeros after
/// them.
template <bool kVector, int kBytes, int kElement>
__device__ __forceinline__ void fill_cell(bool on, std::uint8_t* cell, const std::uint8_t* from, int present) {
  if constexpr (kVector) {
    copy_async_on<kBytes>(on && present > 0, cell, from);
  } else if (on) {
    using Element = std::conditional_t<kElement == 4, std::uint32_t,
                                       std::conditional_t<kElement == 2, std::uint16_t, std::uint8_t>>;
#pragma unroll
    for (int i = 0; i < kBytes / kElement; ++i)
      reinterpret_cast<Element*>(cell)[i] =
          i * kElement < present ? reinterpret_cast<const Element*>(from)[i] : Element{0};
  }
}

/// Two rows' slices on their way into a ring slot in pieces of 16 bytes: lane l copies piece l of the first row's slice
/// and then of the second's. See pieces_pay.
struct RowPieces {
  struct Slice {
    const void* begin;  ///< of row 0
    std::uint32_t row_bytes, bytes;
    int offset;  ///< in a slot
  };
  const std::uint8_t* base = nullptr;  ///< this lane's piece of row 0
  std::uint32_t row_bytes = 0;
  int offset = -1;  ///< of the piece in a slot; negative: this lane copies nothing
  bool of_first = true;

  RowPieces() = default;
  __device__ __forceinline__ RowPieces(const Slice& first, const Slice& second, int lane) {
    const int pieces = static_cast<int>(first.bytes / 16);
    of_first = lane < pieces;
    const int piece = of_first ? lane : lane - pieces;
    base = static_cast<const std::uint8_t*>(of_first ? first.begin : second.begin) + 16 * piece;
    row_bytes = of_first ? first.row_bytes : second.row_bytes;
    if (of_first || piece < static_cast<int>(second.bytes / 16))
      offset = (of_first ? first.offset : second.offset) + 16 * piece;
  }
  __device__ __forceinline__ void copy(bool on, std::uint8_t* slot, int first_row, int second_row) const {
    copy_async_on<16>(on && offset >= 0, slot + offset, row_at(base, of_first ? first_row : second_row, row_bytes));
  }
};

/// The unit of a walk whose rows are asked for next.
struct UnitAhead {
  RecordFeed& feed;
  int& position;

  /// Its records; null past the last unit.
  __device__ __forceinline__ const uint4* records() const {
    feed.reach(position);
    return position < feed.stop() ? feed.unit(position) : nullptr;
  }
  /// All of its rows are on their way.
  __device__ __forceinline__ void done() const {
    commit_copies();
    position += kWalkUnit;
  }
};

/// The walk itself. Body: issue(heads, ring slot) starts the copies of the rows of a unit's groups into ring slots from
/// that one on; the heads are the records' payload and slot, and a group begins where the payload is FIRST.
/// consume(records, ring slot, wait, ahead) handles the unit whose rows lie there after wait(), and asks for those of
/// `ahead` in their place: kByRow, row by row as it goes on; kReadAhead, by ahead(), once it has read all of its cells;
/// else they are asked for afterwards.
/// kSharedCells: lanes read what other lanes copied.
/// ready() is called by every thread of the CTA once the first rows are on their way; after it and a barrier the token
/// rows are there.
template <typename Body, typename Ready>
__device__ __forceinline__ void walk_rows(Body& body, RecordFeed& feed, int units, Ready&& ready) {
  int ahead = feed.begin();
  const auto issue_unit = [&](int slot) {
    feed.reach(ahead);
    if (ahead < feed.stop()) {
      uint2 heads[kWalkUnit];
#pragma unroll
      for (int i = 0; i < kWalkUnit; ++i) heads[i] = head_of(feed.unit(ahead)[i]);
      body.issue(heads, slot);
    }
    commit_copies();
    ahead += kWalkUnit;
  };
  for (int unit = 0; unit < units; ++unit) issue_unit(unit * kWalkUnit);
  ready();
  __syncthreads();
  int slot = 0;
  for (int position = feed.begin(); position < feed.stop(); position += kWalkUnit) {
    const auto wait = [&] {
      wait_copies_but(units - 1);
      if constexpr (Body::kSharedCells) __syncwarp();
    };
    const auto issue_next = [&] {
      if constexpr (Body::kSharedCells) __syncwarp();
      issue_unit(slot);
    };
    if constexpr (!Body::kReadAhead) wait();
    if constexpr (Body::kByRow)
      body.consume(feed.unit(position), slot, wait, UnitAhead{feed, ahead});
    else
      body.consume(feed.unit(position), slot, wait, issue_next);
    if constexpr (!Body::kReadAhead) issue_next();
    slot = (slot + kWalkUnit) & (units * kWalkUnit - 1);
  }
}

/// Asks the L2 for the rows of the groups that begin at the next positions from `from` on, a lane a group, by
/// body.ask(head, groups before it). For the time before the wait for the previous grid: rows that it may still write
/// are right in L2 all the same.
template <typename Body>
__device__ __forceinline__ void ask_rows(const Body& body, const RecordFeed& feed, int from, int lane) {
  constexpr int kAsked = 8;  // what the ring usually takes; H200, read_grad at default 508 us, with 16 552
  const int position = from + lane;
  uint2 head = {0, 0};
  if (lane < kAsked && position < feed.known()) head = head_of(*feed.unit(position));
  const bool first = (head.x & kFirst) != 0u;
  const unsigned firsts = __ballot_sync(0xffffffffu, first);
  if (first) body.ask(head, __popc(firsts & bits_below(lane)));
}

/// Zeroes the padding entries of this CTA's (chunk, slice) of one plane array [slices, N, n].
__device__ __forceinline__ void clear_padding(float* plane_chunk, int valid, int positions, const WalkPlace& place,
                                              const WalkShape& shape) {
  if (valid == positions) return;
  const int threads = static_cast<int>(blockDim.x) / place.group;
  const int thread = place.group == 1 ? static_cast<int>(threadIdx.x) : place.rank * kLanes + place.lane;
  for (int e = valid + place.part * threads + thread; e < positions; e += shape.parts * threads) plane_chunk[e] = 0.0f;
}

}  // namespace sdm::device
