#pragma once
// The order of gather's and gather_grad's sums (spec 2.6): entry e belongs to part e % groups; a part folds its entries
// in ascending e, starting at +0; parts are added to +0 in ascending order. Kernels pad parts with +0 terms as they
// like, so a part ends with one + 0.0f, which turns a -0 (left by underflow alone) into the +0 that any padding gives.
#include <bit>

#include "kernels/common/host.h"

namespace sdm::host {

/// Threads that a stream's step should make for its sums: 8 streams of 8192 fill an H200. Where rows of several column
/// slices return, one slice of one stream should make more by itself, so that few slices share the L2.
inline constexpr std::int64_t kStreamThreads = 8192, kSliceThreads = 32768;

/// The number of parts: a power of two, enough for `owners` sums, each of `vectors` 16-byte vectors, to make `threads`
/// threads; at least 8 entries a part. The number of streams has no say, so a stream's bits do not depend on its
/// neighbours.
inline std::int32_t sum_groups(std::int64_t owners, std::int64_t vectors, int entries,
                               std::int64_t threads = kStreamThreads) {
  std::int32_t groups = 1;
  while (owners * vectors * groups < threads && entries / (2 * groups) >= 8) groups *= 2;
  return groups;
}

/// Threads that read a row: its 16-byte vectors rounded up to a power of two, at least a row group of 8.
inline std::int64_t row_vectors(std::int64_t head_dim, DType dtype) {
  const std::int64_t vectors = (head_dim * static_cast<std::int64_t>(size_of(dtype)) + 15) / 16;
  return static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(8, vectors))));
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
