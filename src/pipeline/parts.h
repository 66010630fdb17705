#pragma once
#include <functional>
#include <vector>

#include "pipeline/sparse.h"

namespace sdm {

/// A piece of a pass that is recorded by itself. It refers to the plan and the buffers that it was made of.
using PassPart = std::function<void(Executor&)>;

/// [0, steps) in at most `most` ranges, in order: two steps each, or as few more as needed. A range is one launch of a
/// recording, which took the host up to 5.2 us beside an H200: with one step each, more than the 5 us that a step may.
std::vector<StepRange> cut_steps(int steps, int most);

/// forward() and backward() as at most `most` parts (3 or more), which run one after the other: what runs once before
/// the steps, the steps (as cut_steps), what runs once after them.
std::vector<PassPart> forward_parts(const SparsePlan& plan, const SparseBuffers& buffers, int most);
std::vector<PassPart> backward_parts(const SparsePlan& plan, const SparseBuffers& buffers, int most);

}  // namespace sdm
