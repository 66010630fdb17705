#pragma once
// How lane groups find the groups that they own among 32 sorted positions (a record window). A lane group owns every
// group whose FIRST lies in its part of the window, and walks on past the part's end until that group's LAST. Ownership
// follows from the records alone, so parts may be of any length and cuts never change bits. Host and device: a CPU test
// runs these very functions.
#include "kernels/data.h"

namespace sdm::device {

SDM_HD unsigned bits_below(int count) { return count >= 32 ? ~0u : (1u << count) - 1u; }
/// Index of the lowest set bit; `none` where there is no bit.
SDM_HD int lowest_bit(unsigned mask, int none) {
#if defined(__CUDA_ARCH__)
  return mask ? __ffs(static_cast<int>(mask)) - 1 : none;
#else
  return mask ? __builtin_ctz(mask) : none;
#endif
}

/// Positions [begin, end) of a window, in position order; `open`: the last group's members go on in the next window.
struct Span {
  int begin = 0, end = 0;
  bool open = false;
};

/// What the owner of [part_begin, part_end) walks in its window. `first` and `last` hold one bit for each of the
/// window's `count` valid positions (a chunk's last valid position is a LAST, so only a full window can stay open).
SDM_HD Span owned_span(unsigned first, unsigned last, int count, int part_begin, int part_end) {
  const unsigned own = first & bits_below(part_end) & ~bits_below(part_begin);
  if (own == 0) return {};
  const int end = lowest_bit(first & ~bits_below(part_end), count);
  return {lowest_bit(own, 0), end, ((last >> (end - 1)) & 1u) == 0};
}
/// What an owner with an open group walks in the next window.
SDM_HD Span continued_span(unsigned last, int count) { return {0, lowest_bit(last, count - 1) + 1, last == 0}; }

/// The groups that begin in [part_begin, part_begin + part) of a window, and how many begin before them.
struct PartGroups {
  unsigned firsts;  ///< bit j: a group begins at position part_begin + j
  int before;       ///< groups of the chunk that begin before part_begin
};
/// `first`: as in owned_span; `before_window`: groups of the chunk that begin before the window.
SDM_HD PartGroups part_groups(unsigned first, int before_window, int part_begin, int part) {
  const unsigned earlier = first & bits_below(part_begin);
#if defined(__CUDA_ARCH__)
  const int count = __popc(earlier);
#else
  const int count = __builtin_popcount(earlier);
#endif
  return {(first >> part_begin) & bits_below(part), before_window + count};
}

}  // namespace sdm::device
