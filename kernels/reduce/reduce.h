#pragma once
#include <array>

#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::reduce {

/// Sums the slice planes of the dots in slice order, then applies the factor once. A job of one plane is already final
/// (its source and its result are the same array) and is left alone.
enum class Factor : std::uint8_t { none, minus_beta, record_c };
struct Job {
  const float* planes = nullptr;  ///< [count, N, C, entries]
  float* sum = nullptr;           ///< [N, C, entries] out
  std::int32_t count = 1;
  std::int32_t entries = 1;  ///< W or R
  Factor factor = Factor::none;
};
struct Params {
  Dims dims;
  std::array<Job, 4> jobs;                 ///< d_kw, d_decay, d_ww, d_qw
  const float* beta = nullptr;             ///< [N, C]
  const Record* undo_record = nullptr;     ///< [N, C*W]
  const std::int32_t* position = nullptr;  ///< [N, C*W] entry -> sorted position
};

void replay(const Params& params, Parallel& threads);

// Variants (GPU).
extern const Variant<Params> planes;  ///< a thread per entry, all jobs in one launch

}  // namespace sdm::reduce
