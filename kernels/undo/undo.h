#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::undo {

/// The backward of write for one step: per group the gradient row is carried back over the step, the bank row is rolled
/// back to its snapshot, and each member gets its dots. With one column slice the planes are the results; with several
/// they are raw slice sums and the factor waits for `reduce` (spec 2.6, 2.7).
struct Params {
  Dims dims;
  std::int32_t step = 0;
  AnyPtr grad;                          ///< [P*slots, D] in and out
  AnyPtr bank;                          ///< [P*slots, D] out: the rows of the step's groups
  Snapshot snapshot;                    ///< any format
  bool reads_copy = false;              ///< gradient rows come from gather_grad's copy instead of grad
  const void* gradient_rows = nullptr;  ///< [N*n, D], as grad, row chunk*n + ordinal
  const float* d_dva = nullptr;         ///< [N, C, D]
  const float* beta = nullptr;          ///< [N, C]
  const Record* record = nullptr;       ///< [N, C*W] undo records
  const Window* window = nullptr;       ///< [N, window_count(C*W)]
  float* d_kw_planes = nullptr;         ///< [nsl, N, C, W] out; padding entries 0
  float* d_decay_planes = nullptr;      ///< [nsl, N, C, W] out; padding entries 0
};

void replay(const Params& params, Parallel& threads);

/// GPU variants, where built with CUDA.
extern const Variant<Params> walk, walk_wide;

}  // namespace sdm::undo
