#pragma once
#include "backend/executor.h"
#include "pipeline/sparse_plan.h"

namespace sdm {

// What runs once a pass: before the forward's steps, and around the backward's.
void prepare(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);
void begin_backward(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);
void finish_backward(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);

/// The steps from `first` up to before `last`; the backward walks them from the last one down.
struct StepRange {
  int first = 0, last = 0;
  friend bool operator==(const StepRange&, const StepRange&) = default;
};
void forward_steps(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers, StepRange range);
void backward_steps(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers, StepRange range);

/// The training forward of the sparse operator: prepare, then gather, mix and write for every step.
void forward(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);

/// Its backward: steps in reverse, then the parameter gradients. Leaves the gradient of the initial bank in `grad` and
/// rolls `bank` back to its initial rows (to their snapshot's precision).
void backward(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers);

}  // namespace sdm
