#pragma once
#include <string>

#include "backend/executor.h"
#include "kernels/fused/fused.h"
#include "pipeline/sparse_plan.h"

namespace sdm {

/// Empty, or why the steps of the passes cannot run as one kernel each (launch mode fused): a shape, a type, a variant
/// that was asked for by name and has other bits, or a GPU that cannot hold all CTAs at once.
std::string refuse_fused(const SparsePlan& plan, const SparseBuffers& buffers, const LaunchContext& context);

/// The launch shapes in words, for the result.
std::string describe_fused(const SparseBuffers& buffers, const LaunchContext& context);

/// The passes with their steps in one kernel each; what runs once a pass stays a launch of its own. `counters`: device
/// memory of fused::counter_bytes(). Bits are those of forward() and backward().
void forward_fused(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers, std::uint32_t* counters);
void backward_fused(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers, std::uint32_t* counters);

}  // namespace sdm
