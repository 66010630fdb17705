#pragma once
// Launch geometry of the walk: from shapes and device facts only, never part of the bits.
#include <algorithm>

#include "kernels/common/launch.h"
#include "kernels/write/write.h"

namespace sdm::write {

/// How a chunk's sorted positions are dealt out. A unit is a window of 32 positions, or one of its 2^unit_shift parts;
/// a CTA owns units_per_cta adjacent units; its warps take turns of tile_units adjacent units.
struct Cut {
  int units_per_cta = 1;
  int unit_shift = 0;
  int tile_units = 1;
  bool engine = false;  ///< token rows are brought by the copy engine
};

struct WalkShape {
  device::LaunchShape launch;
  Cut cut;
};

inline constexpr int kMaxWarps = 16;  ///< of 128 registers: one CTA fills an SM

/// Of the token rows and the barrier of their stage (rows.cuh).
inline std::size_t token_bytes(const Params& p, int columns) {
  return sizeof(float) * static_cast<std::size_t>(p.dims.chunk) * static_cast<std::size_t>(columns) + 16;
}

/// Of a warp's record tables: one for the unit that it writes, one for the next.
inline constexpr int kTableRecords = 64;
inline constexpr std::size_t kTableBytes = kTableRecords * sizeof(Record);

/// Whether the chunk's token rows and the warps' record tables fit a CTA.
inline bool tokens_fit(const Params& p, int columns, const Device& device) {
  return token_bytes(p, columns) + kTableBytes * kMaxWarps <= device.shared_memory_per_block;
}

/// CTAs per chunk: the fewest that minimise waves x (rounds of the CTA's warps + the rounds that staging the chunk's
/// token rows costs; they come from L2, about twice as fast as base rows from memory).
inline int ctas_per_chunk(std::int64_t chunks, int units, int unit_positions, int chunk_tokens, int multiprocessors) {
  const double staging = 0.5 * chunk_tokens / (kMaxWarps * unit_positions);
  const int most = static_cast<int>(std::min<std::int64_t>(units, 4 * (multiprocessors / chunks + 1)));
  int best = 1;
  double best_cost = 0;
  for (int ctas = 1; ctas <= most; ++ctas) {
    const auto waves = static_cast<double>(device::ceil_div(ctas * chunks, std::int64_t{multiprocessors}));
    const double cost = waves * (device::ceil_div(device::ceil_div(units, ctas), kMaxWarps) + staging);
    if (ctas == 1 || cost < best_cost) best = ctas, best_cost = cost;
  }
  return best;
}

/// `lanes`: of a lane group; `columns`: of a CTA; `most_warps`: what shared memory has room for, at most kMaxWarps;
/// `part`: positions of a lane group in a unit (a power of two); 0: units are cut down to 8 as long as every warp still
/// has a place at once, since at small steps latency counts, not instructions. `filled`: CTAs of this grid that are to
/// share an SM.
inline WalkShape walk_shape(const Params& p, const LaunchContext& context, int columns, int lanes, int part,
                            int most_warps = kMaxWarps, int filled = 1) {
  const Geometry& asked = context.geometry;
  const int blocks = device::ceil_div(p.dims.head_dim, columns);
  const std::int64_t chunks = std::int64_t{p.dims.step_streams()} * blocks;
  const int windows = device::ceil_div(p.dims.valid_tokens(p.step) * p.dims.writes, 32);
  const int multiprocessors = filled * std::max(1, context.device.multiprocessors);  // places for CTAs
  Cut cut;
  cut.engine = context.device.has_copy_engine();
  if (part > 0)
    while ((lanes >> cut.unit_shift) > part) ++cut.unit_shift;
  if (asked.tile > 0)
    cut.tile_units = std::clamp(asked.tile / 32, 1, windows) << cut.unit_shift;
  else if (part == 0)
    while ((lanes >> (cut.unit_shift + 1)) >= 8 &&
           ((chunks * windows) << (cut.unit_shift + 1)) <= std::int64_t{multiprocessors} * kMaxWarps)
      ++cut.unit_shift;
  const int units = windows << cut.unit_shift;
  const int ctas = ctas_per_chunk(chunks, units, 32 >> cut.unit_shift, p.dims.chunk, multiprocessors);
  cut.units_per_cta = device::ceil_div(device::ceil_div(units, ctas), cut.tile_units) * cut.tile_units;
  const int warps =
      asked.warps > 0 ? std::min(asked.warps, most_warps) : std::min(most_warps, cut.units_per_cta / cut.tile_units);
  WalkShape shape;
  shape.cut = cut;
  shape.launch.grid =
      dim3(static_cast<unsigned>(chunks), static_cast<unsigned>(device::ceil_div(units, cut.units_per_cta)));
  shape.launch.threads = 32 * warps;
  shape.launch.shared_bytes = token_bytes(p, columns) + kTableBytes * static_cast<std::size_t>(warps);
  return shape;
}

inline std::string describe(const WalkShape& shape, int columns, int lanes, int depth) {
  return device::describe(shape.launch) + "; " + std::to_string(columns) + " columns a CTA, " +
         std::to_string((lanes >> shape.cut.unit_shift) * shape.cut.tile_units) + " positions a turn of " +
         std::to_string(lanes) + " lanes, " + std::to_string(depth) + " rows in flight";
}

/// Rows and token rows are multiples of 16 bytes; else element accesses.
inline bool rows_aligned(const Params& p) {
  return static_cast<std::size_t>(p.dims.head_dim) * size_of(p.bank.dtype) % 16 == 0;
}
/// Words for refusals: "a row of 40 bytes".
inline std::string unaligned_row(const Params& p) {
  return "a row of " + std::to_string(static_cast<std::size_t>(p.dims.head_dim) * size_of(p.bank.dtype)) + " bytes";
}
inline bool quantizes(const Params& p) { return is_quantized(p.snapshot.format); }
/// What every variant refuses; empty: nothing.
inline std::string refuse_common(const Params& p) {
  if (p.snapshot.format == SnapshotFormat::per_entry)
    return "write saves dense snapshots only; per_entry rows are kept by gather";
  if (std::int64_t{p.dims.streams} * device::ceil_div(p.dims.head_dim, 64) > 2147483647)
    return std::to_string(p.dims.streams) + " streams of " + std::to_string(p.dims.head_dim) +
           " columns; at most 2^31 - 1 blocks of 64 columns fit a launch";
  return {};
}

}  // namespace sdm::write
