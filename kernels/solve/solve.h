#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::solve {

/// S = (I + diag(beta) A)^-1 per chunk, unit lower triangular; above the diagonal nothing is written.
struct Params {
  Dims dims;
  const float* a = nullptr;     ///< [N, C, C]
  const float* beta = nullptr;  ///< [N, C]
  float* s = nullptr;           ///< [N, C, C] out
};

void replay(const Params& params, Parallel& threads);

// Variants (GPU).
extern const Variant<Params> blocked;  ///< a warp per block of 32 x 32
extern const Variant<Params> columns;  ///< a thread per column, one row at a time

}  // namespace sdm::solve
