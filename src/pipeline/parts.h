#pragma once
#include <functional>
#include <vector>

#include "pipeline/sparse.h"

namespace sdm {

/// A piece of a pass that is recorded by itself. It refers to the plan and the buffers that it was made of.
using PassPart = std::function<void(Executor&)>;

/// [0, steps) in at most `most` ranges, in order: one step each, or as few more as needed.
std::vector<StepRange> cut_steps(int steps, int most);

/// forward() and backward() as at most `most` parts (3 or more), which run one after the other: what runs once before
/// the steps, the steps (one each, where so many parts are allowed), what runs once after them.
std::vector<PassPart> forward_parts(const SparsePlan& plan, const SparseBuffers& buffers, int most);
std::vector<PassPart> backward_parts(const SparsePlan& plan, const SparseBuffers& buffers, int most);

}  // namespace sdm
