#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::gather {

/// Weighted sums of bank rows per token, for the writes (retrieved) and the reads (inter) of one step, and, when asked,
/// a copy of the write rows for the backward. Order: spec 2.6 with `groups` parts.
struct Params {
  Dims dims;
  std::int32_t step = 0;
  std::int32_t groups = 1;
  AnyPtr bank;                   ///< [P*slots, D] bf16 | f32
  AnyPtr k_idx, q_idx;           ///< [N, C, W], [N, C, R] i32 | i64
  AnyPtr k_weight, q_weight;     ///< [N, C, W], [N, C, R] f32 | bf16
  float* retrieved = nullptr;    ///< [N, C, D] out
  float* inter = nullptr;        ///< [N, C, D] out; null: one operand only
  Snapshot stash;                ///< out; none, per_entry, or raw (dense by ordinal)
  GroupPlaces place;             ///< of the writes, for the dense stash only
  bool write_quantizes = false;  ///< write saves the rows of the writes as fp8 or int4: no bits, only what stays in L2
};

/// Parts of gather's sums: enough owners to fill a large GPU, at least 8 entries each. From shapes only, so the bits
/// never depend on the device (spec 2.6).
std::int32_t groups_for(const Dims& dims, DType bank);

void replay(const Params& params, Parallel& threads);

// GPU variants, one file each.
extern const Variant<Params> stream, rows, rows_l2;

}  // namespace sdm::gather
