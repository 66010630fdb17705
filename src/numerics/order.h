#pragma once
// Reduction orders that are part of the bits (spec 2.6), host form; kernels/common/warp.cuh holds the device twins.
#include <cstdint>

#include "numerics/fp.h"

namespace sdm {

inline constexpr int kLanes = 32;

/// Adds 32 partials in a binary tree that pairs lanes at distance 1, 2, 4, 8, 16 (undo). Overwrites the partials.
inline float tree_sum_near_first(float (&partial)[kLanes]) {
  for (int distance = 1; distance < kLanes; distance *= 2)
    for (int lane = 0; lane < kLanes; lane += 2 * distance) partial[lane] += partial[lane + distance];
  return partial[0];
}

/// The same at distance 16, 8, 4, 2, 1 (read_grad).
inline float tree_sum_far_first(float (&partial)[kLanes]) {
  for (int distance = kLanes / 2; distance >= 1; distance /= 2)
    for (int lane = 0; lane < distance; ++lane) partial[lane] += partial[lane + distance];
  return partial[0];
}

/// Columns [begin, end) of a row, held by 32 lanes of 4 columns.
struct ColumnSlice {
  int begin, end;
  SDM_HD int width() const { return end - begin; }
};

/// Slices of write and read_grad: nsl = ceil(D/128); equal slices where D/nsl is a multiple of 4; else 128 wide, the
/// last one short.
SDM_HD int slice_count(int head_dim) { return (head_dim + 127) / 128; }
SDM_HD int row_slice_width(int head_dim) {
  const int count = slice_count(head_dim);
  return head_dim % count == 0 && (head_dim / count) % 4 == 0 ? head_dim / count : 128;
}
SDM_HD ColumnSlice row_slice(int head_dim, int slice) {
  const int width = row_slice_width(head_dim);
  const int begin = slice * width;
  const int end = begin + width;
  return {begin, end < head_dim ? end : head_dim};
}

/// Slices of undo: 4*ceil(ceil(D/4)/nsl) columns wide, the last one short.
SDM_HD int undo_slice_width(int head_dim) {
  const int quads = (head_dim + 3) / 4;
  const int count = slice_count(head_dim);
  return 4 * ((quads + count - 1) / count);
}
SDM_HD ColumnSlice undo_slice(int head_dim, int slice) {
  const int width = undo_slice_width(head_dim);
  const int begin = slice * width < head_dim ? slice * width : head_dim;
  const int end = begin + width;
  return {begin, end < head_dim ? end : head_dim};
}

}  // namespace sdm
