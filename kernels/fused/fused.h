#pragma once
// The fused launch mode: one persistent kernel walks the steps of a pass. A team of CTAs owns one or several streams
// and takes them through the stages of every step, ordered by counters in device memory; teams never wait for each
// other. The bits are those of the stages' own kernels: the same folds, parts and slices.
#include <string>

#include "kernels/gather/gather.h"
#include "kernels/gather_grad/gather_grad.h"
#include "kernels/mix/mix.h"
#include "kernels/mix_grad/mix_grad.h"
#include "kernels/read_grad/read_grad.h"
#include "kernels/undo/undo.h"
#include "kernels/write/write.h"

namespace sdm::fused {

/// gather, mix and write for all steps. The stages' `step` is not looked at.
struct Forward {
  gather::Params gather;
  mix::Params mix;
  write::Params write;
  std::uint32_t* counters = nullptr;  ///< device memory of counter_bytes(); every launch clears it
};
/// gather_grad, mix_grad, undo and read_grad for all steps, the last one first.
struct Backward {
  gather_grad::Params gather_grad;
  mix_grad::Params mix_grad;
  undo::Params undo;
  read_grad::Params read_grad;
  std::uint32_t* counters = nullptr;
};

std::size_t counter_bytes(const Dims& dims);

/// Empty, or why the pass cannot be one kernel. Sizes, types and device facts only.
std::string refuse(const Forward& pass, const Device& device);
std::string refuse(const Backward& pass, const Device& device);

/// Empty, or why not all CTAs of the kernel would be resident at once; asks the driver. A build without CUDA refuses.
std::string refuse_residency(const Forward& pass, const LaunchContext& context);
std::string refuse_residency(const Backward& pass, const LaunchContext& context);

/// Clears the counters and launches the kernel. What the pass reads must have been written by earlier launches.
void launch(const Forward& pass, const LaunchContext& context);
void launch(const Backward& pass, const LaunchContext& context);

/// The launch shape in words, for the result.
std::string describe(const Forward& pass, const LaunchContext& context);
std::string describe(const Backward& pass, const LaunchContext& context);

}  // namespace sdm::fused
