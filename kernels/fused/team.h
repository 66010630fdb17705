#pragma once
// How streams and CTAs are dealt out in the fused mode, and how a team cuts each stage. Plain C++: a CPU test covers
// it. Nothing here can change bits.
#include <algorithm>
#include <string>

#include "kernels/common/row_walk.h"
#include "kernels/fused/fused.h"

namespace sdm::fused {

inline constexpr int kThreads = 256;
inline constexpr int kWarps = kThreads / 32;
inline constexpr int kCtasPerMultiprocessor = 2;  ///< of different streams, so that one works while the other waits
inline constexpr int kCounterStride = 32;         ///< words: a counter has a line of 128 bytes for itself
inline constexpr int kMostPhases = 4;             ///< stages of a step, a counter each

/// `ctas` CTAs own `streams` neighbouring streams; the last team may own fewer.
struct TeamShape {
  int teams = 1, streams = 1, ctas = 1;
};

/// Teams of the fewest streams whose share of the GPU is within 5 % of the best share that any number gives: many small
/// teams overlap each other's waits. `resident`: CTAs that fit the GPU at once. `most`: CTAs that find work in one
/// stream; more would only wait.
inline TeamShape choose_teams(int streams, int resident, int most) {
  const auto shape_of = [&](int each) {
    const int teams = (streams + each - 1) / each;
    return TeamShape{teams, each,
                     static_cast<int>(std::min<std::int64_t>(resident / teams, std::int64_t{most} * each))};
  };
  const auto load_of = [](const TeamShape& shape) {
    return shape.ctas == 0 ? 1e30 : static_cast<double>(shape.streams) / shape.ctas;
  };
  TeamShape best = shape_of(streams);
  for (int each = 1; each <= streams; ++each)
    if (load_of(shape_of(each)) < load_of(best)) best = shape_of(each);
  for (int each = 1; each <= streams; ++each)
    if (load_of(shape_of(each)) <= 1.05 * load_of(best)) return shape_of(each);
  return best;
}

/// CTAs that find work in one stream: its longest walk, 4 rows a warp.
inline int useful_ctas(const Dims& dims) {
  const int positions = dims.valid_tokens(0) * std::max(dims.writes, dims.reads);
  return slice_count(dims.head_dim) * ((positions + kWarps * kWalkUnit - 1) / (kWarps * kWalkUnit));
}

/// Shared memory that a CTA may take, so that `per_multiprocessor` of them fit; each also costs a reserved KiB.
inline std::size_t shared_limit(const Device& device, int per_multiprocessor) {
  const std::size_t share = device.shared_memory_per_multiprocessor / static_cast<std::size_t>(per_multiprocessor);
  return std::min(device.shared_memory_per_block, share - std::min<std::size_t>(share, 1024));
}

/// write: a column block of a stream is cut into `ranges`; a range is `units_per_range` units, a unit is one of the
/// 2^unit_shift parts of a window of 32 sorted positions, and a warp's piece of work.
struct WriteCut {
  int blocks = 1, ranges = 1, units_per_range = 1, unit_shift = 0;
};
/// `lanes`: of a row's lane group, which takes kWritePart positions at a time.
inline constexpr int kWritePart = 8;
inline WriteCut cut_write(const Dims& dims, const TeamShape& team, int columns, int lanes) {
  WriteCut cut;
  cut.blocks = (dims.head_dim + columns - 1) / columns;
  const int windows = (dims.write_positions() + 31) / 32, owners = team.streams * cut.blocks;
  while ((lanes >> cut.unit_shift) > kWritePart) ++cut.unit_shift;
  const int units = windows << cut.unit_shift;
  cut.ranges = std::clamp(team.ctas / owners, 1, (units + kWarps - 1) / kWarps);
  cut.units_per_range = (units + cut.ranges - 1) / cut.ranges;
  return cut;
}

/// What lies before the shared memory of the phases: the barrier of the token rows' stage.
inline constexpr std::size_t kBarrierBytes = 16;
/// Shared memory of write: that barrier, a block of the chunk's token rows with the 16 bytes that follow it in a launch
/// of write itself, and two tables of 32 records for every warp.
inline std::size_t write_shared_bytes(const Dims& dims, int columns) {
  return kBarrierBytes + sizeof(float) * static_cast<std::size_t>(dims.chunk) * static_cast<std::size_t>(columns) + 16 +
         sizeof(Record) * 64 * kWarps;
}
/// Columns of a CTA of write: 128 where rows are wider than 64 and as many fit, else 64.
inline int write_columns(const Dims& dims, std::size_t limit) {
  return dims.head_dim > 64 && write_shared_bytes(dims, 128) <= limit ? 128 : 64;
}

inline WalkNeeds undo_needs(const Dims& dims, int slot_bytes) {
  return {.streams = dims.streams,
          .slices = slice_count(dims.head_dim),
          .stride = undo_slice_width(dims.head_dim),
          .chunk = dims.chunk,
          .valid = dims.valid_tokens(0) * dims.writes,
          .slot_bytes = slot_bytes,
          .most_warps = kWarps};
}
inline WalkNeeds read_needs(const Dims& dims, int slot_bytes) {
  return {.streams = dims.streams,
          .slices = slice_count(dims.head_dim),
          .stride = (row_slice_width(dims.head_dim) + 3) / 4 * 4,
          .chunk = dims.chunk,
          .valid = dims.valid_tokens(0) * dims.reads,
          .slot_bytes = slot_bytes,
          .most_warps = kWarps};
}

/// undo and read_grad: the row walk by CTAs of kWarps warps, with shared memory up to `limit`; shape.warps is less than
/// kWarps where it does not fit.
inline WalkShape cut_walk(const WalkNeeds& needs, const TeamShape& team, std::size_t limit) {
  LaunchContext context;
  context.device.shared_memory_per_block = limit;
  WalkShape shape{.slices = needs.slices, .stride = needs.stride};
  choose_ring(shape, needs, context);
  shape.parts = std::max(1, team.ctas / (team.streams * needs.slices));
  const auto rounded = [](int positions) { return std::max(1, (positions + kWalkUnit - 1) / kWalkUnit) * kWalkUnit; };
  shape.tile = std::min(kLongestTile, rounded((needs.valid + shape.parts * kWarps - 1) / (shape.parts * kWarps)));
  shape.parts = std::max(1, (needs.valid + shape.tile * kWarps - 1) / (shape.tile * kWarps));
  return shape;
}

/// Parameters of one step.
template <typename Params>
Params bind_step(Params params, int step) {
  params.step = step;
  return params;
}

/// "8 teams of 33 CTAs, 1 stream each".
inline std::string describe(const TeamShape& team) {
  return std::to_string(team.teams) + " teams of " + std::to_string(team.ctas) + " CTAs of " +
         std::to_string(kThreads) + " threads, " + std::to_string(team.streams) +
         (team.streams == 1 ? " stream each" : " streams each");
}

}  // namespace sdm::fused
