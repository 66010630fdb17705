#pragma once
#include <vector>

#include "kernels/dense_rescan/dense_rescan.h"
#include "pipeline/cost.h"
#include "pipeline/tensor.h"

namespace sdm {

/// Every array of the dense workload, named, with extents (spec 4). Absent tensors have no shape.
struct DenseBuffers {
  explicit DenseBuffers(const DenseWorkload& workload);

  DenseWorkload workload;
  Tensor w, kg, u, d_out, g2, h0;              // inputs; d_out absent with dq off, h0 without initial state
  Tensor checkpoints, v_new, dq, final_state;  // outputs; dq absent with dq off

  std::vector<Tensor*> tensors();
  std::vector<const Tensor*> tensors() const;
  dense_rescan::Params params() const;
};

/// Every array element moved once (of g2 the chunks' last rows) and the matrix products.
StageCost dense_cost(const DenseBuffers& buffers);

}  // namespace sdm
