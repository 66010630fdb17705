#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::group_entries {

/// Sorts every chunk's entries by (slot, token, entry), valid ones first, and describes the groups (spec 2.3).
struct Params {
  Dims dims;
  AnyPtr k_idx;   ///< [N, C, W] i32 | i64, absolute rows
  AnyPtr q_idx;   ///< [N, C, R]
  Groups writes;  ///< out
  Groups reads;   ///< out
};

void replay(const Params& params, Parallel& threads);

}  // namespace sdm::group_entries
