#pragma once
#include "backend/executor.h"
#include "pipeline/sparse_plan.h"

namespace sdm {

/// The training forward of the sparse operator: prepare, then gather, mix and write for every step.
void forward(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);

/// Its backward: steps in reverse, then the parameter gradients. Leaves the gradient of the initial bank in `grad` and
/// rolls `bank` back to its initial rows (to their snapshot's precision).
void backward(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);

}  // namespace sdm
