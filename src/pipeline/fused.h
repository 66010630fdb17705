#pragma once
#include <string>

#include "backend/executor.h"
#include "kernels/fused/fused.h"
#include "pipeline/sparse_plan.h"

namespace sdm {

/// Empty, or why the steps of the passes cannot run as one kernel each (launch mode fused): a shape, a type, a variant
/// that was asked for by name and has other bits, or a GPU that cannot hold all CTAs at once.
std::string refuse_fused(const SparsePlan& plan, const SparseBuffers& buffers, const LaunchContext& context);

/// Where `auto` takes fused, for either pass by itself. Forward: at least 8 MiB of written rows a step, which fill the
/// GPU, in chunks of at most 64 tokens; or of at most 128 with at most 64 MiB a step: the small tiles of its products
/// cost more with longer chunks, and a wait saved is worth less in a long step. H200, the graph of dependent launches
/// over fused, forward + backward (results/h200/launch_rule.json): default 1.10, f32_128 1.16, wide960 1.01, default of
/// 128 streams 0.99, of 4 0.98; chunks of 128 tokens: small120 1.04, D 128 1.09, of 32 streams 1.03, of 2 0.82, D 1024
/// 0.94; of 256: 0.99. Backward: there, but not where rows of bf16 lie in an even number of slices that cut sectors:
/// undo and read_grad walk these in pairs in their own kernels (results/h200/launch_modes.json, wide960: 5.88 ms in
/// dependent launches, fused 6.71).
bool forward_fused_pays(const SparseBuffers& buffers);
bool backward_fused_pays(const SparseBuffers& buffers);

/// A pass's launch shape in words, for the result.
std::string describe_fused_forward(const SparseBuffers& buffers, const LaunchContext& context);
std::string describe_fused_backward(const SparseBuffers& buffers, const LaunchContext& context);

/// The passes with their steps in one kernel each; what runs once a pass stays a launch of its own. `counters`: device
/// memory of fused::counter_bytes(). Bits are those of forward() and backward().
void forward_fused(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers, std::uint32_t* counters);
void backward_fused(Executor& executor, const SparsePlan& plan, const SparseBuffers& buffers, std::uint32_t* counters);

}  // namespace sdm
