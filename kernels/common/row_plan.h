#pragma once
// Who reads what in gather and gather_grad. A row group of `lanes` threads folds one part of a token's entries over one
// column slice of the rows. The row groups of one (token, slice) are a unit; a unit sits in one CTA, which adds the
// parts in order (sum_parts.h). Sizes only, no device code: a unit test walks every place of a plan.
#include <algorithm>
#include <bit>
#include <string>

#include "kernels/data.h"

namespace sdm {

/// How a row is cut: slices of `lanes` vectors of `vec` elements. `vec` fills 16 bytes, or is 1 where the row is no
/// multiple of 16 bytes. The planes of gather_grad's dots are these slices (gather_grad::dot_shape states the rule).
struct RowCut {
  std::int32_t vec, lanes, slices;
};
inline RowCut cut_row(std::int32_t head_dim, DType row) {
  const auto element = static_cast<std::int32_t>(size_of(row));
  if (std::int64_t{head_dim} * element % 16 != 0) return {1, 32, (head_dim + 31) / 32};
  const std::int32_t vec = 16 / element, vectors = head_dim / vec;
  const std::int32_t lanes = vectors <= 8 ? 8 : (vectors <= 16 ? 16 : 32);
  return {vec, lanes, (vectors + lanes - 1) / lanes};
}

/// The powers of two among the extents are kept as exponents: a kernel places a thread by shifts.
struct RowPlan {
  std::int32_t vec, slices;
  std::int32_t lane_bits;   ///< log2 of the lanes of a row group
  std::int32_t group_bits;  ///< log2 of the parts of a token's sum
  std::int32_t unit_bits;   ///< log2 of the threads of a unit: lanes times the parts folded at once
  std::int32_t threads;     ///< of a CTA, a multiple of the unit's and of 32
  std::int32_t units;       ///< streams*chunk*slices of a launch
  std::int32_t head_dim, chunk, valid_tokens;
  bool slice_major;  ///< order of units: (stream, slice, token), else (token, slice)

  SDM_HD std::int32_t lanes() const { return 1 << lane_bits; }
  SDM_HD std::int32_t groups() const { return 1 << group_bits; }
  SDM_HD std::int32_t unit_threads() const { return 1 << unit_bits; }
  SDM_HD std::int32_t parallel() const { return 1 << (unit_bits - lane_bits); }  ///< parts folded at once
  SDM_HD std::int32_t units_per_cta() const { return threads >> unit_bits; }
  SDM_HD std::int32_t slice_columns() const { return vec << lane_bits; }
  SDM_HD std::int32_t part_entries(std::int32_t entries) const { return (entries + groups() - 1) >> group_bits; }
  std::int32_t ctas() const { return (units + units_per_cta() - 1) / units_per_cta(); }
  /// One float per (unit of the CTA, part, column of the slice); a single part stays in registers.
  std::size_t shared_bytes() const {
    const std::int64_t floats = std::int64_t{units_per_cta()} * groups() * slice_columns();
    return group_bits == 0 ? 0 : sizeof(float) * static_cast<std::size_t>(floats);
  }
};

inline constexpr std::int32_t kMaxSumGroups = 32;  ///< 256 entries, 8 a part: the most that a stage's rule gives

/// Why a stage of this family cannot run, or empty. `entries`: the larger of its operands' widths.
inline std::string refuse_row_plan(const Dims& dims, std::int32_t groups, std::int32_t entries) {
  if (groups < 1 || groups > kMaxSumGroups || (groups & (groups - 1)) != 0)
    return "groups is " + std::to_string(groups) + "; a power of two in 1.." + std::to_string(kMaxSumGroups) +
           " is supported";
  const std::int64_t step_entries = std::int64_t{dims.streams} * dims.chunk * entries;
  if (step_entries >= (std::int64_t{1} << 31))
    return "a step has " + std::to_string(step_entries) + " entries; at most 2147483647 are supported, fewer streams " +
           "or a smaller chunk would be needed";
  return "";
}

/// Threads of a CTA: small enough to spread one step evenly over the SMs, large enough for a unit of the usual shapes.
inline constexpr std::int32_t kMaxRowThreads = 256;

/// Entries per slot of a chunk, over all operands, from which rows are worth finding again in L2.
inline bool rows_return(const Dims& dims, std::int32_t entries) {
  return 4 * std::int64_t{dims.chunk} * entries >= dims.slots;
}

/// How long L2 keeps rows that were read.
enum class Stay : std::int32_t {
  leave,    ///< evicted first, as with a load that leaves no line in L1 and says nothing of L2 (measured on an H200)
  usual,    ///< as all else
  quarter,  ///< a quarter of the lines `last`, the others `leave`
  last,     ///< evicted last
};

/// gather's rows, by operand.
struct GatherStays {
  Stay writes, reads;
};
/// Write reads the rows of the writes again two launches later, nobody soon those of the reads, unless rows return
/// within the step. Of more rows than L2 holds a quarter stays: all of them would drive each other out. None of them
/// where write quantizes: its kernels for wide rows gain less than gather loses (flag64, the steps of a forward saving
/// fp8 as dependent launches on an H200: 5,902 us, 6,047 with a quarter).
inline GatherStays gather_stays(const Dims& dims, DType row, bool returning, bool write_quantizes,
                                std::size_t l2_bytes) {
  if (returning) return {Stay::last, Stay::usual};
  const auto row_bytes = dims.head_dim * static_cast<std::int64_t>(size_of(row));
  const std::int64_t bytes = std::int64_t{dims.streams} * dims.write_positions() * row_bytes;
  if (4 * bytes <= 3 * static_cast<std::int64_t>(l2_bytes)) return {Stay::usual, Stay::leave};
  if (write_quantizes) return {Stay::leave, Stay::leave};
  return {Stay::quarter, Stay::usual};
}
/// gather_grad's: undo reads them again, two launches later.
inline constexpr Stay kGradientStay = Stay::last;

/// Lanes of a row group where rows return and slices are free (gather's; gather_grad's dots fix theirs). With 4 parts a
/// token, two or three slices of 256 bytes of one stream are in flight, and rows are found again in L2: flagship gather
/// took 3.2 ms on an H200, 3.9 with 32 lanes and 1 part; of 1024 tokens, 0.81 ms, 0.82 with 8 parts, 0.97 with 8 lanes.
inline constexpr std::int32_t kNarrowLanes = 16;

/// `entries`: of a token, summed over operands. `warps` a CTA, 0 for the most. `lanes`: at most, where rows return.
inline RowPlan make_row_plan(const Dims& dims, DType row, std::int32_t step, std::int32_t groups, std::int32_t entries,
                             std::int32_t warps, std::int32_t lanes = 32) {
  RowCut cut = cut_row(dims.head_dim, row);
  const bool returning = cut.slices > 1 && rows_return(dims, entries);
  if (returning && cut.vec > 1 && lanes < cut.lanes) {
    cut.lanes = lanes;
    cut.slices = (dims.head_dim / cut.vec + lanes - 1) / lanes;
  }
  const auto bits = [](std::int32_t power) { return std::countr_zero(static_cast<std::uint32_t>(power)); };
  RowPlan plan{};
  plan.vec = cut.vec, plan.slices = cut.slices;
  plan.lane_bits = bits(cut.lanes), plan.group_bits = bits(groups);
  plan.unit_bits = plan.lane_bits + bits(std::min(groups, kMaxRowThreads / cut.lanes));
  const std::int32_t wanted = warps > 0 ? std::min(32 * warps, kMaxRowThreads) : kMaxRowThreads;
  plan.threads = std::max(plan.unit_threads(), wanted / plan.unit_threads() * plan.unit_threads());
  plan.units = dims.step_streams() * dims.chunk * cut.slices;
  plan.head_dim = dims.head_dim, plan.chunk = dims.chunk, plan.valid_tokens = dims.valid_tokens(step);
  // Where rows return, the CTAs that run together should share few slices of one stream, so that these stay in L2;
  // where they do not, the slices of one row are read side by side: whole rows for the DRAM.
  plan.slice_major = returning;
  return plan;
}

/// Where a thread stands. `token` counts over the step: stream*C + token in the chunk.
struct RowPlace {
  std::int32_t unit_in_cta, thread_in_unit;
  std::int32_t part;  ///< the first of the row group's parts; the others follow at distance parallel()
  std::int32_t lane;
  std::int32_t token, slice, column;  ///< column: the first of the lane's `vec` ones; may lie past the row
  bool owned;                         ///< the unit exists
  bool valid;                         ///< and its token is not padding
};
/// `unit`: the thread's; from `stop` on units are not this CTA's.
SDM_HD RowPlace place_of_unit(const RowPlan& plan, std::int32_t unit, std::int32_t stop, std::int32_t thread) {
  RowPlace at;
  at.unit_in_cta = thread >> plan.unit_bits;
  at.thread_in_unit = thread & (plan.unit_threads() - 1);
  at.part = at.thread_in_unit >> plan.lane_bits;
  at.lane = thread & (plan.lanes() - 1);
  at.owned = unit < stop;
  if (plan.slice_major) {
    const std::int32_t chunk_slice = unit / plan.chunk, stream = chunk_slice / plan.slices;
    at.slice = chunk_slice - stream * plan.slices;
    at.token = unit + (stream - chunk_slice) * plan.chunk;
  } else {
    at.token = plan.slices == 1 ? unit : unit / plan.slices;
    at.slice = unit - at.token * plan.slices;
  }
  at.column = ((at.slice << plan.lane_bits) + at.lane) * plan.vec;
  at.valid = at.owned && (plan.valid_tokens == plan.chunk || at.token % plan.chunk < plan.valid_tokens);
  return at;
}
SDM_HD RowPlace place_of(const RowPlan& plan, std::int32_t block, std::int32_t thread) {
  return place_of_unit(plan, block * plan.units_per_cta() + (thread >> plan.unit_bits), plan.units, thread);
}

/// Where quad `q` (4 columns) of a part lies in shared memory: swapping neighbours in every other run of 8 quads keeps
/// both the row groups' stores (every second quad at a time) and the sums' loads (consecutive quads) free of conflicts.
SDM_HD std::int32_t swizzled(std::int32_t q) { return q ^ ((q >> 3) & 1); }

}  // namespace sdm
