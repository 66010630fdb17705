#pragma once
// The walk that the variants share: a CTA owns a range of a chunk's positions and one block of columns; its token rows
// lie in shared memory; its warps take units of 32 positions or fewer. What a warp does with a unit is the Batch's; all
// of it is called by the whole warp:
//   using Shape; static constexpr Save kSave;
//   using Work;         made of (view, chunk, unit) from old data; one made of nothing has no groups
//   kHoldsRows; where true:
//     begin(view, work)      asks for the first work's rows
//     meanwhile(view, work)  does with them what needs no token rows
//   kAsk   when the L2 is asked for rows ahead
//   operator()(view, chunk, work, next, ready)   ready() waits for the token rows; `next` is the work to come
#include "kernels/common/group_walk.cuh"
#include "kernels/common/launch.h"
#include "kernels/write/encode.cuh"
#include "kernels/write/shape.h"
#include "kernels/write/write.h"

namespace sdm::write {

/// The second work's rows before or after the token rows; always: before them, and in every turn a work ahead of the
/// one whose rows are on their way.
enum class Ask : std::uint8_t { never, late, early, always };

/// The sorted positions of one chunk.
struct ChunkRecords {
  const Record* record;
  const Window* window;
  int valid;       ///< positions; padding follows
  int unit_shift;  ///< a unit is 32 >> unit_shift positions
};

/// Where a lane stands: fixed for the whole kernel.
template <typename S>
struct LaneView {
  typename S::T* bank;     ///< at the lane's column of row 0
  const float* token_row;  ///< shared memory, at the lane's first column of token 0
  Record* table;           ///< shared memory, the first of the warp's two [32]
  std::uint8_t* saved;     ///< the lane's first byte in the snapshot row of the chunk's group 0
  float* scales;           ///< of the chunk's group 0; null but in the first column block
  std::uint32_t row_bytes, saved_row_bytes;
  int columns;  ///< of the CTA's block that the row has
  int width;    ///< of those, the lane's
};

/// A warp's piece of work: the groups that begin in one window, or in one of its 2^unit_shift equal parts. All of this
/// is old data, asked for one unit ahead.
struct Unit {
  int index = 0;
  uint4 record{0, 0, 0, 0};  ///< the lane's in the window
  int groups_before = 0;     ///< the window; where rows are saved
};

template <Save kSave>
__device__ __forceinline__ Unit load_unit(const ChunkRecords& chunk, int index) {
  const int w = index >> chunk.unit_shift;
  return {index, device::load_record(chunk.record, w, chunk.valid),
          kSave == Save::none ? 0 : chunk.window[w].groups_before};
}

/// Asks the L2 for the first base rows of a unit's lane groups. (Bulk prefetches were slower than none at flag64 on an
/// H200: 3358 us against 2684.)
template <typename S>
__device__ __forceinline__ void prefetch_rows(const LaneView<S>& v, const Unit& unit, int unit_shift) {
  constexpr int kGranule = 64;  // what the L2 fetches at least
  constexpr int kRows = 4096 / (S::kColumns * static_cast<int>(sizeof(typename S::T)));
  const int lane = static_cast<int>(threadIdx.x & 31), sub = unit.index & ((1 << unit_shift) - 1);
  if (!S::kAligned || (unit.record.x & kFirst) == 0 || lane >> (5 - unit_shift) != sub) return;
  if ((lane & ((S::kLanes >> unit_shift) - 1)) >= kRows) return;
  const auto* row = reinterpret_cast<const char*>(
      row_at(v.bank - lane % S::kLanes * S::kElements, static_cast<std::int32_t>(unit.record.y), v.row_bytes));
#pragma unroll
  for (int i = 0; i < S::kColumns * static_cast<int>(sizeof(typename S::T)); i += kGranule)
    if (i < v.columns * static_cast<int>(sizeof(typename S::T)))
      asm volatile("prefetch.global.L2 [%0];" ::"l"(row + i) : "memory");
}

/// The calling lane's view of one column block of one chunk. `tokens`: shared memory as of walk().
template <typename S, Save kSave>
__device__ __forceinline__ LaneView<S> lane_view(const Params& p, std::int64_t chunk, int block_column, float* tokens) {
  const Dims& d = p.dims;
  const int lane = static_cast<int>(threadIdx.x) % S::kLanes, warp = static_cast<int>(threadIdx.x) / 32;
  const int n = d.write_positions(), column = block_column + lane * S::kElements;
  const int row_bytes = saved_bytes<S, kSave>(d.head_dim);
  return {static_cast<typename S::T*>(p.bank.data) + column,
          tokens + S::kElements * lane,
          reinterpret_cast<Record*>(tokens + token_floats<S>(d.chunk)) + kTableRecords * warp,
          static_cast<std::uint8_t*>(p.snapshot.rows) + chunk * n * row_bytes + saved_bytes<S, kSave>(column),
          is_quantized(kSave) && block_column == 0 ? p.snapshot.scale + chunk * n : nullptr,
          static_cast<std::uint32_t>(d.head_dim) * static_cast<std::uint32_t>(sizeof(typename S::T)),
          static_cast<std::uint32_t>(row_bytes),
          min(S::kColumns, d.head_dim - block_column),
          min(max(d.head_dim - column, 0), S::kElements)};
}

/// The units of one warp, from `unit` on, below `stop`; following(unit) is the one after. Records are asked for two
/// units ahead. start() is called by the whole CTA: it waits for who made delta_v and starts the stage of the token
/// rows, for which ready() waits. Base rows are older: the first unit's are on their way before start(), and the L2 is
/// asked for the second unit's while the token rows come. H200, not saving, neither / the first / both: wide960
/// 1355 / 1295 / 1270 us, f32_128 627 / 639 / 597; and with both before start() 1316 and 652, but 1816 in
/// place of 1844 for wide960 saving raw; with both before it and a unit more in every turn, direct2 not saving takes
/// 1235 us in place of 1282 (flag64 2398 in place of 2434).
template <typename Batch, typename Following, typename Start, typename Ready>
__device__ __forceinline__ void walk_units(LaneView<typename Batch::Shape> view, const ChunkRecords& records, int unit,
                                           int stop, Following&& following, Batch& batch, Start&& start,
                                           Ready&& ready) {
  bool some = unit < stop;
  typename Batch::Work work, next;
  Unit ahead;
  int flip = 32;  // to the other of the warp's two tables
  if (some) {
    const Unit first = load_unit<Batch::kSave>(records, unit);
    unit = following(unit);
    if (unit < stop) ahead = load_unit<Batch::kSave>(records, unit);
    work = {view, records, first};
    if constexpr (Batch::kHoldsRows)
      batch.begin(view, work);
    else
      prefetch_rows(view, first, records.unit_shift);
    if (Batch::kAsk >= Ask::early && unit < stop) prefetch_rows(view, ahead, records.unit_shift);
  }
  start();
  if (Batch::kAsk == Ask::late && unit < stop) prefetch_rows(view, ahead, records.unit_shift);
  if constexpr (Batch::kHoldsRows)
    if (some) batch.meanwhile(view, work);
  while (some) {
    some = unit < stop;
    next = {};
    if (some) {
      view.table += flip, flip = -flip;
      next = {view, records, ahead};
      unit = following(unit);
      if (unit < stop) ahead = load_unit<Batch::kSave>(records, unit);
      if (Batch::kAsk == Ask::always && unit < stop) prefetch_rows(view, ahead, records.unit_shift);
    }
    batch(view, records, work, next, ready);
    work = next;
  }
  ready();  // warps without a unit, too
}

/// The kernel's body. grid.x = streams x column blocks (blocks fastest), grid.y = ranges of a chunk's units.
/// `tokens`: shared memory for token_floats and two record tables [32] for every warp. Records, windows and the first
/// base rows are read before the wait for the previous grid: they were written before that one (write.h).
template <typename Batch>
__device__ __forceinline__ void walk(const Params& p, const Cut& cut, float* tokens, Batch batch) {
  using S = typename Batch::Shape;
  const Dims& d = p.dims;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  int block_column = 0, stream = static_cast<int>(blockIdx.x);
  if (d.head_dim > S::kColumns) {
    const int blocks = (d.head_dim + S::kColumns - 1) / S::kColumns;
    block_column = stream % blocks * S::kColumns, stream /= blocks;
  }
  const std::int64_t chunk = std::int64_t{p.step} * d.streams + stream;
  const int n = d.write_positions(), valid_tokens = d.valid_tokens(p.step), valid = valid_tokens * d.writes;
  const ChunkRecords records{p.record + chunk * n, p.window + chunk * window_count(n), valid, cut.unit_shift};
  const int units = ((valid + 31) / 32) << cut.unit_shift, begin = static_cast<int>(blockIdx.y) * cut.units_per_cta;
  device::RowStage stage(token_barrier<S>(tokens, d.chunk), cut.engine);
  const auto start = [&] {
    __syncthreads();  // the stage's barrier
    device::wait_for_previous_grid();
    device::allow_next_grid();
    stage.start<S::kAligned>(
        token_block<S>(tokens, p.delta_v + chunk * d.chunk * d.head_dim, valid_tokens, d.head_dim, block_column));
  };
  bool staged = false;
  const auto ready = [&] {
    if (!staged) stage.wait<S::kAligned>();
    staged = true;
  };
  int left = cut.tile_units;  // of the warp's tile
  const auto following = [&](int unit) {
    if (--left > 0) return unit + 1;
    left = cut.tile_units;
    return unit + 1 + (static_cast<int>(blockDim.x) / 32 - 1) * cut.tile_units;
  };
  walk_units(lane_view<S, Batch::kSave>(p, chunk, block_column, tokens), records, begin + warp * cut.tile_units,
             min(units, begin + cut.units_per_cta), following, batch, start, ready);
}

}  // namespace sdm::write
