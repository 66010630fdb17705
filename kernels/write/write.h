#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::write {

/// Per group of one step: M[s] = M[s]*cpe + sum_i write_weight_i * delta_v[token_i], and, when asked, the pre-write row
/// into the dense snapshot.
struct Params {
  Dims dims;
  std::int32_t step = 0;
  AnyPtr bank;                     ///< [P*slots, D] in and out
  const float* delta_v = nullptr;  ///< [N, C, D]
  const Record* record = nullptr;  ///< [N, C*W]
  const Window* window = nullptr;  ///< [N, window_count(C*W)]
  Snapshot snapshot;               ///< out; rows null: none. Dense formats only
};

void replay(const Params& params, Parallel& threads);

// GPU variants. All give the replay's bits, unless they say otherwise.
extern const Variant<Params> direct;  ///< one column slice a lane group

}  // namespace sdm::write
