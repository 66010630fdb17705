#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::mix_grad {

/// d_dva = base_dva + S^T d_dv_w for the chunks of one step.
struct Params {
  Dims dims;
  std::int32_t step = 0;
  const float* s = nullptr;         ///< [N, C, C]
  const float* base_dva = nullptr;  ///< [N, C, D]
  const float* d_dv_w = nullptr;    ///< [N, C, D]
  float* d_dva = nullptr;           ///< [N, C, D] out
};

void replay(const Params& params, Parallel& threads);

// Variants (GPU).
extern const Variant<Params> simt;    ///< the transposed triangular product; fp32 multiply-adds
extern const Variant<Params> tensor;  ///< tf32 three times on tensor cores; repeatable, never picked by auto

}  // namespace sdm::mix_grad
