#pragma once
// Buffers -> a stage's Params, for a whole pass: the only place that connects arrays to stages. Step stages get their
// step from at(params, step).
#include "kernels/registry.h"
#include "pipeline/sparse_buffers.h"

namespace sdm::bind {

group_entries::Params group_entries(const SparseBuffers& s);
decay_sums::Params decay_sums(const SparseBuffers& s);
interactions::Params interactions(const SparseBuffers& s);
solve::Params solve(const SparseBuffers& s);
combine::Params combine(const SparseBuffers& s);
gather::Params gather(const SparseBuffers& s);
mix::Params mix(const SparseBuffers& s);
write::Params write(const SparseBuffers& s);
combine_grad::Params combine_grad(const SparseBuffers& s);
gather_grad::Params gather_grad(const SparseBuffers& s);
mix_grad::Params mix_grad(const SparseBuffers& s);
undo::Params undo(const SparseBuffers& s);
read_grad::Params read_grad(const SparseBuffers& s);
reduce::Params reduce(const SparseBuffers& s);
parameter_gradients::Params parameter_gradients(const SparseBuffers& s);

template <typename Params>
Params at(Params params, int step) {
  params.step = step;
  return params;
}

}  // namespace sdm::bind
