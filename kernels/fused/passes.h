#pragma once
// The forward kernels by bank type: compiled apart, so that they build side by side.
#include "kernels/fused/fused.h"

namespace sdm::fused {

/// What to do with the kernel that fits a pass.
enum class Action { refuse_residency, launch, describe };
std::string forward_bf16(const Forward& pass, const LaunchContext& context, Action action);
std::string forward_f32(const Forward& pass, const LaunchContext& context, Action action);
std::string backward_bf16(const Backward& pass, const LaunchContext& context, Action action);
std::string backward_mixed(const Backward& pass, const LaunchContext& context, Action action);
std::string backward_f32(const Backward& pass, const LaunchContext& context, Action action);

}  // namespace sdm::fused
