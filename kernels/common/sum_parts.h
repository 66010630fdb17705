#pragma once
// The order of gather's and gather_grad's sums (spec 2.6): entry e belongs to part e % groups; a part folds its entries
// in ascending e, starting at +0; parts are added to +0 in ascending order. Kernels pad parts with +0 terms as they
// like, so a part ends with one + 0.0f, which turns a -0 (left by underflow alone) into the +0 that any padding gives.
#include "kernels/common/host.h"

namespace sdm::host {

/// The number of parts: a power of two, enough for `vectors` 16-byte vectors a row to make `enough` threads a token, at
/// least 8 entries a part. Streams, tokens and chunk have no say, so a stream's bits do not depend on its neighbours.
inline std::int32_t sum_groups(std::int64_t vectors, int entries, int enough) {
  std::int32_t groups = 1;
  while (vectors * groups < enough && entries / (2 * groups) >= 8) groups *= 2;
  return groups;
}

/// 16-byte vectors of a row, the last one partial; at least a row group of 8 threads.
inline std::int64_t row_vectors(std::int64_t head_dim, DType dtype) {
  return std::max<std::int64_t>(8, (head_dim * static_cast<std::int64_t>(size_of(dtype)) + 15) / 16);
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
