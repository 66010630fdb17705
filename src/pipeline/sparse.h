#pragma once
#include "backend/executor.h"
#include "pipeline/sparse_plan.h"

namespace sdm {

// What runs once a pass: before the forward's steps, and around the backward's.
void prepare(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);
void begin_backward(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);
void finish_backward(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);

/// The training forward of the sparse operator: prepare, then gather, mix and write for every step.
void forward(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);

/// Its backward: steps in reverse, then the parameter gradients. Leaves the gradient of the initial bank in `grad` and
/// rolls `bank` back to its initial rows (to their snapshot's precision).
void backward(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);

}  // namespace sdm
