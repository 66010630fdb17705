#pragma once
#include <string>

#include "backend/executor.h"
#include "kernels/fused/fused.h"
#include "pipeline/sparse_plan.h"

namespace sdm {

/// Empty, or why the steps of the passes cannot run as one kernel each (launch mode fused): a shape, a type, a variant
/// that was asked for by name and has other bits, or a GPU that cannot hold all CTAs at once.
std::string refuse_fused(const SparsePlan& plan, const SparseBuffers& buffers, const LaunchContext& context);

/// Where `auto` takes fused: chunks of at most 64 tokens, whose products are short, and at least 8 MiB of written rows
/// a step, which fill the GPU. H200, forward + backward against the graph of dependent launches (results/h200/
/// launch_modes.json): default 3352 us against 3429, flag64 17.1 ms against 18.5, wide960 10.7 against 10.9,
/// f32_128 4.69 against 5.36, default of 32 streams 10.0 against 10.8; below: default of 2 streams 2.22 against 1.78;
/// longer chunks: small120 3.77 against 3.77, flagship 36.2 against 30.9.
bool fused_pays(const SparseBuffers& buffers);

/// The launch shapes in words, for the result.
std::string describe_fused(const SparseBuffers& buffers, const LaunchContext& context);

/// The passes with their steps in one kernel each; what runs once a pass stays a launch of its own. `counters`: device
/// memory of fused::counter_bytes(). Bits are those of forward() and backward().
void forward_fused(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers, std::uint32_t* counters);
void backward_fused(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers, std::uint32_t* counters);

}  // namespace sdm
