#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::interactions {

/// A and QK of spec 1.2: pairs of entries on one slot inside a chunk; zeros elsewhere, up to the diagonals. Above these
/// nothing is written: there are zeros from the start (Tensor::Role::lower).
struct Params {
  Dims dims;
  Gate gate = Gate::token;
  const float* g = nullptr;      ///< [N, C, 1 or W], of which log_k and log_q are sums
  AnyPtr k, q;                   ///< [N, C, W], [N, C, R]
  const float* log_k = nullptr;  ///< [N, C, W]
  const float* log_q = nullptr;  ///< [N, C, R]
  Groups writes, reads;
  float* a = nullptr;   ///< [N, C, C] out, lower, zeros on the diagonal
  float* qk = nullptr;  ///< [N, C, C] out, lower
};

void replay(const Params& params, Parallel& threads);

// Variants (GPU).
extern const Variant<Params> few_pairs;    ///< a list of the entries that have pairs, a thread each
extern const Variant<Params> group_pairs;  ///< a warp per row of A and QK, lanes over the members of a group

}  // namespace sdm::interactions
