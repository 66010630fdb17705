#pragma once
#include <string>

#include "backend/executor.h"
#include "kernels/fused/fused.h"
#include "pipeline/sparse_plan.h"

namespace sdm {

/// Empty, or why the steps of the passes cannot run as one kernel each (launch mode fused): a shape, a type, a variant
/// that was asked for by name and has other bits, or a GPU that cannot hold all CTAs at once.
std::string refuse_fused(const SparsePlan& plan, const SparseBuffers& buffers, const LaunchContext& context);

/// Where `auto` takes fused, for either pass by itself, as measured on an H200 (results/h200/launch_rule.json: the
/// graph of dependent launches over fused). What a stream waits for, others must fill: streams times the bytes that a
/// step writes, at least 48 MiB. Forward: chunks of up to 64 tokens, longer ones of up to 64 KiB (tokens times
/// bytes of a row), since the small tiles of its products cost more with longer chunks. 8 streams of `default` 1.03,
/// 32 1.13, f32_128 1.05, flag64 1.11; 4 streams of `default` 0.85, one of 1024 columns 0.79; chunks of 128:
/// small120 1.06, 360 columns 0.90. Backward: there, and from 16 MiB in chunks of up to 64 tokens and rows of up to 1
/// KiB (4 streams of `default` 1.06; 2 of 1024 columns 0.90); but not where slices cut sectors, if undo and read_grad
/// walk pairs of them in their own kernels (wide960 0.88) or chunks are longer (small120 0.97).
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
