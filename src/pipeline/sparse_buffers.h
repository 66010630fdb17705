#pragma once
#include <vector>

#include "kernels/data.h"
#include "kernels/gather_grad/gather_grad.h"
#include "pipeline/tensor.h"

namespace sdm {

/// Every array of the sparse pipeline, named, with extents. N = steps*P chunks, time-major. Absent tensors have no
/// shape: without a snapshot all that the backward alone reads or makes.
struct SparseBuffers {
  explicit SparseBuffers(const SparseWorkload& workload);

  SparseWorkload workload;
  Dims dims;
  std::int32_t gather_groups, gather_grad_groups;  ///< parts of the sums: bit-relevant, from shapes only
  gather_grad::DotShape dot_shape;

  Tensor k_idx, q_idx, k, q, g, v, beta, d_reading;  // inputs
  Tensor bank, grad;                                 // states
  struct Side {
    Tensor payload, slot, position, match, window;
  } writes, reads;
  Tensor group_scratch;
  Tensor log_k, rex, log_q, k_weight, q_weight, write_weight, write_record, read_record, undo_record;
  Tensor a, qk, s, b, qb, base_dv, base_out;
  Tensor retrieved, inter, delta_v, reading;
  Tensor snapshot, snapshot_scale;
  Tensor gradient_rows;  // present where the workload asks for a gradient copy
  Tensor u, base_dva, d_dv_w, d_dva;
  Tensor d_ww_planes, d_kw_planes, d_decay_planes, d_qw_planes;  // absent where one plane is the result
  Tensor d_ww, d_kw, d_decay, d_qw;
  Tensor dm, dqk, d_log_k, d_rex, d_log_q, d_gate;  // d_gate absent where the gate is per write (it is d_g)
  Tensor d_k, d_q, d_v, d_beta, d_g;

  /// The present tensors, in the order in which stages make them.
  std::vector<Tensor*> tensors();
  std::vector<const Tensor*> tensors() const;
};

/// The buffers as step stages see them that take the streams from `first` up to before `last`: what counts chunks
/// begins at the first of these streams, and distances between chunks, steps and planes stay.
SparseBuffers of_streams(SparseBuffers buffers, int first, int last);

}  // namespace sdm
