#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::decay_sums {

/// Decay sums along every group, the weights that follow from them, and the records (spec 1.2, 2.4, 2.6).
/// Padding entries get zeros (records: slot 0, scale 0, c 1).
struct Params {
  Dims dims;
  Gate gate = Gate::token;
  const float* g = nullptr;     ///< [N, C, 1 or W]
  AnyPtr k, q;                  ///< [N, C, W], [N, C, R] f32 | bf16
  const float* beta = nullptr;  ///< [N, C]
  Groups writes, reads;
  float* log_k = nullptr;          ///< [N, C, W] out
  float* rex = nullptr;            ///< [N, C, W] out
  float* log_q = nullptr;          ///< [N, C, R] out
  AnyPtr k_weight, q_weight;       ///< [N, C, W], [N, C, R] out, f32 | bf16
  float* write_weight = nullptr;   ///< [N, C, W] out
  Record* write_record = nullptr;  ///< [N, C*W] out
  Record* read_record = nullptr;   ///< [N, C*R] out
  Record* undo_record = nullptr;   ///< [N, C*W] out
};

void replay(const Params& params, Parallel& threads);

// Variants (GPU).
extern const Variant<Params> chunk_scan;  ///< a CTA per chunk, its sums by entry in shared memory
extern const Variant<Params> group_scan;  ///< every entry walks its own group

}  // namespace sdm::decay_sums
