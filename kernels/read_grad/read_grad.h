#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::read_grad {

/// The backward of the reads of one step: d_qw[t,m] = <gr[t], M[q_idx]> on the rolled-back bank, and
/// G[q_idx] += sum q_weight*gr per group.
struct Params {
  Dims dims;
  std::int32_t step = 0;
  AnyPtr bank;                       ///< [P*slots, D]
  AnyPtr grad;                       ///< [P*slots, D] in and out
  AnyPtr q_idx;                      ///< [N, C, R] i32 | i64
  const float* d_reading = nullptr;  ///< [N, C, D]
  const Record* record = nullptr;    ///< [N, C*R] read records
  const Window* window = nullptr;    ///< [N, window_count(C*R)]
  float* d_qw_planes = nullptr;      ///< [nsl, N, C, R] out; padding entries 0
};

void replay(const Params& params, Parallel& threads);

/// GPU variants, where built with CUDA. `atomic` is the baseline without an order: approximate, never automatic.
extern const Variant<Params> fused, split, atomic;

}  // namespace sdm::read_grad
