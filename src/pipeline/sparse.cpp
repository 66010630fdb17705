#include "pipeline/sparse.h"

#include "pipeline/sparse_bind.h"

namespace sdm {

void prepare(Executor& ex, const SparsePlan& plan, const SparseBuffers& b) {
  ex.run(plan.group_entries, bind::group_entries(b));
  const auto decay_sums = [&] { ex.run(plan.decay_sums, bind::decay_sums(b)); };
  const auto interactions_to_combine = [&] {
    ex.run(plan.interactions, bind::interactions(b));
    ex.run(plan.solve, bind::solve(b));
    ex.run(plan.combine, bind::combine(b));
  };
  const auto* variant = plan.interactions.variant;
  if (variant && variant->independent_of == "decay_sums") return ex.beside(decay_sums, interactions_to_combine);
  decay_sums();
  interactions_to_combine();
}

void begin_backward(Executor& ex, const SparsePlan& plan, const SparseBuffers& b) {
  ex.run(plan.combine_grad, bind::combine_grad(b));
}

void finish_backward(Executor& ex, const SparsePlan& plan, const SparseBuffers& b) {
  ex.run(plan.reduce, bind::reduce(b));
  ex.run(plan.parameter_gradients, bind::parameter_gradients(b));
}

void forward_steps(Executor& ex, const SparsePlan& plan, const SparseBuffers& b, StepRange range) {
  ex.in_branches(b.dims.streams, [&](int first, int last) {
    const SparseBuffers part = of_streams(b, first, last);
    const auto gather = bind::gather(part);
    const auto mix = bind::mix(part);
    const auto write = bind::write(part);
    for (int step = range.first; step < range.last; ++step) {
      ex.run(plan.gather, bind::at(gather, step));
      ex.run(plan.mix, bind::at(mix, step));
      ex.run(plan.write, bind::at(write, step));
    }
  });
}

void backward_steps(Executor& ex, const SparsePlan& plan, const SparseBuffers& b, StepRange range) {
  ex.in_branches(b.dims.streams, [&](int first, int last) {
    const SparseBuffers part = of_streams(b, first, last);
    const auto gather_grad = bind::gather_grad(part);
    const auto mix_grad = bind::mix_grad(part);
    const auto undo = bind::undo(part);
    const auto read_grad = bind::read_grad(part);
    for (int step = range.last - 1; step >= range.first; --step) {
      ex.run(plan.gather_grad, bind::at(gather_grad, step));
      ex.run(plan.mix_grad, bind::at(mix_grad, step));
      ex.run(plan.undo, bind::at(undo, step));
      ex.run(plan.read_grad, bind::at(read_grad, step));
    }
  });
}

void forward(Executor& ex, const SparsePlan& plan, const SparseBuffers& b) {
  prepare(ex, plan, b);
  forward_steps(ex, plan, b, {0, b.dims.steps});
}

void backward(Executor& ex, const SparsePlan& plan, const SparseBuffers& b) {
  begin_backward(ex, plan, b);
  backward_steps(ex, plan, b, {0, b.dims.steps});
  finish_backward(ex, plan, b);
}

}  // namespace sdm
