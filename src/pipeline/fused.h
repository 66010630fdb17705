#pragma once
#include <string>

#include "backend/executor.h"
#include "kernels/fused/fused.h"
#include "pipeline/sparse_plan.h"

namespace sdm {

/// Empty, or why the steps of the passes cannot run as one kernel each (launch mode fused): a shape, a type, a variant
/// that was asked for by name and has other bits, or a GPU that cannot hold all CTAs at once.
std::string refuse_fused(const SparsePlan& plan, const SparseBuffers& buffers, const LaunchContext& context);

/// Where `auto` takes fused in place of branches of dependent launches, for either pass by itself, as measured on an
/// H200 (results/h200/launch_rule.json: branches over fused). Forward: where branches of a stream or more write at
/// least 1.75 MiB a step, since with shorter steps branches fill each other's waits as well; in chunks of up to 64
/// tokens, and of up to 128 with up to 64 KiB (tokens times bytes of a row), since the small tiles of its products cost
/// more with longer chunks. 8 streams of `default` 0.95, 32 1.08, f32_128 1.01, flag64 1.05; 16 streams of 32 entries
/// 0.93; 4 streams of 1024 columns 1.00. Backward: with more streams than branches, in chunks of up to 64 tokens and
/// rows of up to 1 KiB: 8 streams of `default` 0.97, 32 1.08; flag64 0.99, 32 streams in chunks of 128 tokens 0.95.
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
