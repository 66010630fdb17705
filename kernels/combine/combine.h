#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::combine {

/// What the step loop needs of the interactions: B = -S diag(beta), QB = QK B, base_dv = S (beta v), base_out = QK
/// base_dv.
struct Params {
  Dims dims;
  const float* s = nullptr;     ///< [N, C, C]
  const float* qk = nullptr;    ///< [N, C, C]
  const float* beta = nullptr;  ///< [N, C]
  const float* v = nullptr;     ///< [N, C, D]
  float* b = nullptr;           ///< [N, C, C] out, lower
  float* qb = nullptr;          ///< [N, C, C] out, lower
  float* base_dv = nullptr;     ///< [N, C, D] out
  float* base_out = nullptr;    ///< [N, C, D] out
};

void replay(const Params& params, Parallel& threads);

// Variants (GPU).
extern const Variant<Params> teams;  ///< all products of 128 columns of a chunk by one CTA, inputs on the way meanwhile
extern const Variant<Params> simt;   ///< B and QB, then base_dv, then base_out; fp32 multiply-adds

}  // namespace sdm::combine
