#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::mix {

/// delta_v = base_dv + B retrieved and reading = (inter + base_out) + QB retrieved, for the chunks of one step.
struct Params {
  Dims dims;
  std::int32_t step = 0;
  const float* b = nullptr;          ///< [N, C, C]
  const float* qb = nullptr;         ///< [N, C, C]
  const float* base_dv = nullptr;    ///< [N, C, D]
  const float* base_out = nullptr;   ///< [N, C, D]
  const float* retrieved = nullptr;  ///< [N, C, D]
  const float* inter = nullptr;      ///< [N, C, D]
  float* delta_v = nullptr;          ///< [N, C, D] out
  float* reading = nullptr;          ///< [N, C, D] out
};

void replay(const Params& params, Parallel& threads);

// Variants (GPU).
extern const Variant<Params> simt;    ///< delta_v and reading in one pass over retrieved; fp32 multiply-adds
extern const Variant<Params> tensor;  ///< tf32 three times on tensor cores; repeatable, never picked by auto

}  // namespace sdm::mix
