#pragma once
// Lane dots over a column slice (spec 2.6): 32 lanes of 4 columns, host form.
#include "kernels/common/host.h"

namespace sdm::host {

/// Lane partials x0*y0, then fma(x1,y1,.) .. fma(x3,y3,.); lanes past the slice are +0. A slice is at most 128 wide.
inline void lane_partials(const float* x, const float* y, int width, float (&partial)[kLanes]) {
  for (float& lane : partial) lane = 0.0f;
  const int whole = width / 4;
  for (int lane = 0; lane < whole; ++lane) {
    const float* a = x + 4 * lane;
    const float* b = y + 4 * lane;
    partial[lane] = fma_rn(a[3], b[3], fma_rn(a[2], b[2], fma_rn(a[1], b[1], a[0] * b[0])));
  }
  if (const int rest = width - 4 * whole; rest > 0) {
    float sum = x[4 * whole] * y[4 * whole];
    for (int i = 1; i < 4; ++i) {  // a missing column is a (+0, +0) term
      const bool in = i < rest;
      sum = fma_rn(in ? x[4 * whole + i] : 0.0f, in ? y[4 * whole + i] : 0.0f, sum);
    }
    partial[whole] = sum;
  }
}

}  // namespace sdm::host
