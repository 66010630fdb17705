#pragma once
// The order of gather's and gather_grad's sums (spec 2.6): entry e belongs to part e % groups; a part folds its entries
// in ascending e, starting at +0; parts are added to +0 in ascending order. Kernels pad parts with +0 terms as they
// like, so a part ends with one + 0.0f, which turns a -0 (left by underflow alone) into the +0 that any padding gives.
#include "kernels/common/host.h"

namespace sdm::host {

/// The number of parts: enough threads to fill a large GPU (64 Ki), at least 8 entries a part; a power of two.
inline std::int32_t sum_groups(std::int64_t owners, int entries, int threads_per_owner) {
  constexpr std::int64_t kEnoughThreads = 64 * 1024;
  std::int32_t groups = 1;
  while (owners * threads_per_owner * groups < kEnoughThreads && entries / (2 * groups) >= 8) groups *= 2;
  return groups;
}

/// out[d] = the sum over entries of weight(e) * row(e)[d]. `scratch` holds 2*columns floats.
template <typename T, typename Weight, typename Row>
void sum_parts(int entries, int groups, int columns, Weight&& weight, Row&& row, float* scratch, float* out) {
  float* part = scratch;
  float* total = scratch + columns;
  std::fill(total, total + columns, 0.0f);
  for (int g = 0; g < groups; ++g) {
    std::fill(part, part + columns, 0.0f);
    for (int e = g; e < entries; e += groups) fold_row<T>(weight(e), row(e), columns, part);
    for (int d = 0; d < columns; ++d) total[d] = total[d] + (part[d] + 0.0f);
  }
  narrow_row(total, columns, out);
}

}  // namespace sdm::host
