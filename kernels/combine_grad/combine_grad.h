#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::combine_grad {

/// The once-per-backward part of mix's gradient: U = QK^T gr, base_dva = S^T U.
struct Params {
  Dims dims;
  const float* s = nullptr;          ///< [N, C, C]
  const float* qk = nullptr;         ///< [N, C, C]
  const float* d_reading = nullptr;  ///< [N, C, D]
  float* u = nullptr;                ///< [N, C, D] out
  float* base_dva = nullptr;         ///< [N, C, D] out
};

void replay(const Params& params, Parallel& threads);

// Variants (GPU).
extern const Variant<Params> simt;  ///< U, then base_dva; fp32 multiply-adds

}  // namespace sdm::combine_grad
