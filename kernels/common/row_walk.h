#pragma once
// Index arithmetic and launch geometry of a row walk (row_walk.cuh): plain C++, so that a CPU test covers it.
#include <algorithm>
#include <string>

#include "kernels/data.h"
#include "kernels/stage.h"
#include "numerics/order.h"

namespace sdm {

/// Positions that a warp handles between two waits; their lane trees are summed together.
inline constexpr int kWalkUnit = 4;
/// Sorted records that a warp keeps at hand: the block it walks and the block it prefetches rows for.
inline constexpr int kWalkRecords = 64;

/// Bits 0 .. count-1; count may be negative or beyond 32.
SDM_HD std::uint32_t bits_below(int count) {
  if (count <= 0) return 0u;
  return count >= 32 ? ~0u : (1u << count) - 1u;
}
SDM_HD int lowest_bit(std::uint32_t mask) {
#if defined(__CUDA_ARCH__)
  return __ffs(static_cast<int>(mask)) - 1;
#else
  return __builtin_ctz(mask);
#endif
}

/// A tile [begin, end) of sorted positions owns the groups whose FIRST lies in it, to their end: positions
/// [first, stop). The bounds are found as the records come by in blocks of 32, so that no look-up stands before them.
struct TileBounds {
  static constexpr int kUnknown = 0x7fffffff;
  int begin, end;  ///< begin a multiple of kWalkUnit where the tile is not empty; end <= valid
  int valid;       ///< positions of valid entries; padding follows
  int next;        ///< the next block is [next, next + 32)
  int first = kUnknown;
  int stop = kUnknown;

  SDM_HD TileBounds(int begin_, int end_, int valid_) : begin(begin_), end(end_), valid(valid_), next(begin_) {
    if (begin >= end) first = stop = 0;
  }
  /// `starts`: bit i set where position next + i is valid and FIRST.
  SDM_HD void take_block(std::uint32_t starts) {
    const std::uint32_t inside = bits_below(end - next);
    const int base = next;
    next += 32;
    if (first == kUnknown) {
      if ((starts & inside) != 0u)
        first = base + lowest_bit(starts & inside);
      else if (next >= end)
        first = begin, stop = begin;  // all of the tile belongs to a group that began before it
    }
    if (first == kUnknown || stop != kUnknown) return;
    const std::uint32_t past = starts & ~inside;
    if (past != 0u)
      stop = base + lowest_bit(past);
    else if (next >= valid)
      stop = valid;
  }
};

/// Launch geometry. CTA = (stream, slice group, part): `warps` warps that each walk one tile of `tile` positions in one
/// slice, neighbouring warps in neighbouring slices; the token rows of a slice are shared by the CTA where they fit.
struct WalkShape {
  int warps = 16;
  int units = 4;  ///< units of rows in flight per warp: 1, 2, 4 or 8
  int parts = 1;  ///< CTAs per (stream, slice group)
  int tile = 0;
  int slices = 1;
  int group = 1;        ///< neighbouring slices that a CTA walks: 1, 2 or 4; divides slices and warps
  int stride = 0;       ///< columns of a slice's token rows in shared memory, a multiple of 4
  bool staged = true;   ///< token rows in shared memory; else read through L1
  bool engine = false;  ///< the copy engine brings them
  bool pieces = false;  ///< the two rows of a group come in pieces of 16 bytes, not in a lane's quads
  bool pairs = false;   ///< what counts as a slice here are two (slice_pairs.cuh)
  bool asks = false;    ///< ask the L2 for rows before the wait for the previous grid
  std::size_t shared_bytes = 0;

  int slice_groups() const { return slices / group; }
  int tiles() const { return warps / group; }  ///< of a CTA and slice
};

/// Warps per CTA at most: rows of whole quads, or element by element.
constexpr int walk_warps(bool vector) { return vector ? 16 : 8; }

/// What decides the geometry.
struct WalkNeeds {
  int streams, slices, stride, chunk, valid;  ///< valid: positions of the step's chunks
  int slot_bytes;                             ///< ring bytes per position and lane
  int most_warps;
  int group = 1;             ///< slices that a CTA had better walk together
  bool pieces_fit = false;   ///< both rows of a group are of bf16, their slices made of 16-byte pieces
  bool pairs_fit = false;    ///< the same, and slices are equal and even in number
  bool short_tiles = false;  ///< shorten_tiles()
};

/// Per-CTA shared memory: token rows, a quad of zeros, 16 bytes for the barrier of the token rows' stage, one float per
/// token, then per warp its records and its ring.
/// `group`: the shape's, by value so that a kernel of single slices may pass a constant 1.
SDM_HD int walk_token_floats(const WalkShape& shape, int chunk, int group) {
  return shape.staged ? group * chunk * shape.stride : 0;
}
SDM_HD int walk_header_floats(const WalkShape& shape, int chunk, int group) {
  return walk_token_floats(shape, chunk, group) + 8 + (chunk + 3) / 4 * 4;
}
SDM_HD int walk_ring_bytes(int units, int slot_bytes) { return units * kWalkUnit * kLanes * slot_bytes; }
inline std::size_t walk_shared_bytes(const WalkShape& shape, const WalkNeeds& needs) {
  const auto header = static_cast<std::size_t>(walk_header_floats(shape, needs.chunk, shape.group)) * sizeof(float);
  const auto per_warp =
      kWalkRecords * sizeof(Record) + static_cast<std::size_t>(walk_ring_bytes(shape.units, needs.slot_bytes));
  return header + static_cast<std::size_t>(shape.warps) * per_warp;
}

/// Slices that a CTA had better walk together where a slice's edges cut sectors of 32 bytes: the neighbour finds the
/// other half of a sector in L1 or in L2. `wide960` on an H200 with one slice, two and four: undo 3,272, 3,114 and
/// 3,014 us, read_grad 2,280, 2,177 and 2,264 us (pairs, where they fit, do better). Slices of whole sectors gained
/// nothing (`flag64` with four: undo 5,245 us against 5,270, read_grad 3,699 against 3,616).
constexpr int walk_group(int slice_bytes, int best) { return slice_bytes % 32 == 0 ? 1 : best; }

/// A slice of bf16 columns [.., width) of rows of `head_dim` that is made of 16-byte pieces.
constexpr bool made_of_pieces(int head_dim, int width) { return head_dim % 8 == 0 && width % 8 == 0; }
/// The same for pairs of slices.
constexpr bool made_of_pairs(int head_dim, int width) { return width % 8 == 0 && head_dim % (2 * width) == 0; }
/// Rows of a pair begin anywhere in a line of so many bytes: the shared memory of a CTA has as many more.
inline constexpr int kPairPhase = 128;

/// Whether rows had better come in pieces of 16 bytes: copies of a lane's quad of bf16, 8 bytes, pass through L1 and
/// hold lines of it until they arrive. Where shared memory leaves L1 less than the rows in flight (`flagship`), pieces
/// gain (H200, read_grad 6,133 us to 5,881, undo 8,643 to 8,568); elsewhere they lose (undo at default 736 to 768,
/// wide960 2,935 to 3,177, read_grad 2,117 to 2,315).
inline bool pieces_pay(const WalkShape& shape, int slot_bytes, const Device& device) {
  constexpr std::size_t kBeyondShared = 28 * 1024;  // L1 and shared memory are one; so much is never shared memory
  const auto in_flight = static_cast<std::size_t>(shape.warps * walk_ring_bytes(shape.units, slot_bytes));
  return shape.shared_bytes + in_flight > device.shared_memory_per_multiprocessor + kBeyondShared;
}

/// The deepest ring that fits beside the token rows, from the wanted warps and rows in flight (16 and 8) downwards. 16
/// warps of 8 rows keep 32 KiB and more in flight per multiprocessor, what 4 TB/s at a microsecond need; 16 rows were
/// slower on an H200 (read_grad 657 us against 612 at `default`, 688 against 608 at `small120`; undo 832 against 820).
/// Token rows that leave no room for 8 warps are read through L1 instead.
inline void choose_ring(WalkShape& shape, const WalkNeeds& needs, const LaunchContext& context) {
  constexpr int kFewWarps = 8;
  const int wanted_warps = std::min(context.geometry.warps > 0 ? context.geometry.warps : 16, needs.most_warps);
  int wanted_units = context.geometry.depth > 0 ? 1 : 2;
  while (wanted_units < 8 && 2 * wanted_units * kWalkUnit <= context.geometry.depth) wanted_units *= 2;
  shape.warps = wanted_warps, shape.units = wanted_units;
  for (shape.group = needs.group; shape.group > 1; shape.group /= 2) {  // not at the cost of rows in flight
    if (needs.slices % shape.group != 0 || wanted_warps % shape.group != 0) continue;
    shape.shared_bytes = walk_shared_bytes(shape, needs);
    if (shape.shared_bytes <= context.device.shared_memory_per_block) return;
  }
  for (const bool staged : {true, false}) {
    shape.staged = staged, shape.warps = wanted_warps, shape.units = wanted_units;
    for (;;) {
      shape.shared_bytes = walk_shared_bytes(shape, needs);
      if (shape.shared_bytes <= context.device.shared_memory_per_block) return;
      if (shape.units > 2)
        shape.units /= 2;
      else if (shape.warps > kFewWarps)
        shape.warps = kFewWarps, shape.units = wanted_units;
      else if (shape.units > 1)
        shape.units /= 2;
      else if (!staged && shape.warps > 1)
        shape.warps /= 2;
      else
        break;
    }
  }
}

/// CTAs per (stream, slice group): the fewest rounds of resident CTAs (one per multiprocessor), each counted by its
/// positions and by half a chunk of them for its start (token rows to stage, first rows to arrive).
inline int choose_parts(const WalkShape& shape, const WalkNeeds& needs, int multiprocessors) {
  const int owners = needs.streams * shape.slice_groups();
  const int most = std::max(1, needs.valid / (shape.tiles() * kWalkUnit));
  int best = 1;
  double best_cost = 0;
  for (int parts = 1; parts <= most && owners * parts <= 4 * multiprocessors + owners; ++parts) {
    const int rounds = (owners * parts + multiprocessors - 1) / multiprocessors;
    const double cost = rounds * (static_cast<double>(needs.valid) / parts + 0.5 * needs.chunk);
    if (parts == 1 || cost < best_cost) best = parts, best_cost = cost;
  }
  return best;
}

/// Longer tiles leave the slowest warp of a wave too much to do: at `flagship` on an H200, undo took 11.5 ms with tiles
/// of 1024 positions, 8.7 ms with 64 and 9.0 ms with 256; read_grad 6.9, 6.4 and 6.0 ms.
inline constexpr int kLongestTile = 128;

/// Tiles of `tile` positions, for which the CTAs of a slice group change in number.
inline void set_tile(WalkShape& shape, const WalkNeeds& needs, int tile) {
  shape.tile = (tile + kWalkUnit - 1) / kWalkUnit * kWalkUnit;
  shape.parts = std::max(1, (needs.valid + shape.tile * shape.tiles() - 1) / (shape.tile * shape.tiles()));
}

/// Undo's tiles (H200). Two waves of pairs in place of one let a multiprocessor that is done early take more: flag64
/// 4,902 us to 4,785, with four waves 4,823. Where rows in pieces come in many waves, flagship takes 8,310 us with
/// tiles of 128, 8,220 with 96, 8,250 with 64, 8,142 with 48 and 8,314 with 32; saving fp8, without pieces, 8,891 with
/// 128 and 9,446 with 48.
inline void shorten_tiles(WalkShape& shape, const WalkNeeds& needs, int multiprocessors) {
  constexpr int kManyWaves = 4;
  const bool many = needs.streams * shape.slice_groups() * shape.parts >= kManyWaves * multiprocessors;
  if (shape.pairs && shape.tile >= 64)
    set_tile(shape, needs, shape.tile / 2);
  else if (shape.pieces && many)
    set_tile(shape, needs, 48);
}

/// Tiles that fill a warp's rows in flight, of which half of the multiprocessors hold all (one wave of shorter ones is
/// twice as many): registers leave room for one CTA each, so the kernel behind begins on the other half. H200, backward
/// of dependent launches at `default`: of two streams 1,009 us to 885, of four with chunks of 32 tokens 1,927 to 1,732;
/// 512 columns, one stream 1,436 to 1,389; where the shorter tiles fit half already, one stream of `default`, it would
/// lose (695 to 816).
inline void fill_tiles(WalkShape& shape, const WalkNeeds& needs, int multiprocessors) {
  const int in_flight = shape.units * kWalkUnit;
  if (shape.tile < in_flight && needs.streams * shape.slice_groups() * shape.parts > multiprocessors / 2)
    set_tile(shape, needs, in_flight);
}

inline WalkShape choose_walk_of_slices(const WalkNeeds& needs, const LaunchContext& context) {
  WalkShape shape{.slices = needs.slices, .stride = needs.stride, .engine = context.device.has_copy_engine()};
  choose_ring(shape, needs, context);
  shape.pieces = needs.pieces_fit && shape.group == 1 && pieces_pay(shape, needs.slot_bytes, context.device);
  if (context.geometry.tile > 0) {
    set_tile(shape, needs, context.geometry.tile);
  } else {
    shape.parts = choose_parts(shape, needs, std::max(1, context.device.multiprocessors));
    const int tiles = shape.parts * shape.tiles();
    shape.tile = std::max(1, ((needs.valid + tiles - 1) / tiles + kWalkUnit - 1) / kWalkUnit) * kWalkUnit;
    if (shape.tile > kLongestTile) set_tile(shape, needs, kLongestTile);
    if (context.dependent_launch) fill_tiles(shape, needs, context.device.multiprocessors);
  }
  // CTAs past the first wave would only send their requests twice.
  shape.asks =
      context.dependent_launch && needs.streams * shape.slice_groups() * shape.parts <= context.device.multiprocessors;
  return shape;
}

/// Pairs of slices, where their token rows fit beside as many rows in flight as single slices have: each row in flight
/// is then twice as wide.
inline WalkShape choose_walk(const WalkNeeds& needs, const LaunchContext& context) {
  WalkShape shape = choose_walk_of_slices(needs, context);
  if (needs.pairs_fit) {
    WalkNeeds two = needs;
    two.slices /= 2, two.stride *= 2, two.slot_bytes *= 2, two.group = 1;
    WalkShape pairs = choose_walk_of_slices(two, context);
    pairs.shared_bytes += kPairPhase, pairs.pairs = true, pairs.pieces = false;
    const bool fits = pairs.staged && pairs.shared_bytes <= context.device.shared_memory_per_block;
    if (fits && pairs.warps == shape.warps && pairs.units == shape.units) shape = pairs;
  }
  if (needs.short_tiles && context.geometry.tile == 0)
    shorten_tiles(shape, needs, std::max(1, context.device.multiprocessors));
  return shape;
}

inline std::string describe(const WalkShape& shape) {
  return "tiles of " + std::to_string(shape.tile) + " positions, " + std::to_string(shape.warps) + " warps, " +
         std::to_string(shape.units * kWalkUnit) + " rows in flight per warp, " + std::to_string(shape.parts) +
         " CTAs per stream and " +
         (shape.pairs       ? "pair of slices"
          : shape.group > 1 ? std::to_string(shape.group) + " slices"
                            : "slice") +
         ", token rows " +
         (!shape.staged  ? "through L1"
          : shape.engine ? "in shared memory by the copy engine"
                         : "in shared memory") +
         (shape.pieces ? ", rows in 16-byte pieces" : "");
}

}  // namespace sdm
