#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::gather_grad {

/// d_dv_w[t] = sum_n write_weight*G[k_idx] and d_ww[t,n] = <delta_v[t], G[k_idx]> for one step, with G before the step.
struct Params {
  Dims dims;
  std::int32_t step = 0;
  std::int32_t groups = 1;
  AnyPtr grad;                          ///< [P*slots, D] bf16 | f32
  AnyPtr k_idx;                         ///< [N, C, W] i32 | i64
  const float* write_weight = nullptr;  ///< [N, C, W]
  const float* delta_v = nullptr;       ///< [N, C, D]
  float* d_dv_w = nullptr;              ///< [N, C, D] out
  float* d_ww_planes = nullptr;         ///< [planes, N, C, W] out; padding entries 0
  bool copies = false;                  ///< the writes' rows are kept for undo, one a group, on the way
  void* gradient_rows = nullptr;        ///< [N*n, D] out, as grad, row chunk*n + ordinal; no group's rows: not written
  GroupPlaces place;                    ///< of the writes, for the copy only
};

/// How a dot over one row is cut (spec 2.6): `lanes` threads of `vec` elements each per plane.
struct DotShape {
  std::int32_t vec, lanes, planes;
};
DotShape dot_shape(std::int32_t head_dim, DType grad);

std::int32_t groups_for(const Dims& dims, DType grad);

void replay(const Params& params, Parallel& threads);

// GPU variants, one file each.
extern const Variant<Params> ring, stream, two_parts, rows, rows_r64;

}  // namespace sdm::gather_grad
