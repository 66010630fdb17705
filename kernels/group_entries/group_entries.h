#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::group_entries {

/// Sorts every chunk's entries by (slot, token, entry), valid ones first, and describes the groups (spec 2.3).
struct Params {
  Dims dims;
  AnyPtr k_idx;             ///< [N, C, W] i32 | i64, absolute rows
  AnyPtr q_idx;             ///< [N, C, R]
  Groups writes;            ///< out
  Groups reads;             ///< out
  void* scratch = nullptr;  ///< scratch_bytes(dims) of device memory for `radix`, 16-byte aligned
};

void replay(const Params& params, Parallel& threads);

/// An upper bound of what any variant needs in Params::scratch, from sizes alone.
std::int64_t scratch_bytes(const Dims& dims);

/// CTAs of `radix`: two for each of 132 multiprocessors; each sorts one (chunk, side) after the other in its own
/// scratch.
inline constexpr std::int64_t kRadixBlocks = 264;

// Variants (GPU).
extern const Variant<Params> block_sort;  ///< one CTA per (chunk, side), in shared memory
extern const Variant<Params> radix;       ///< the same sort with its lists in global memory

}  // namespace sdm::group_entries
