#pragma once
// What the launchers of both passes share: residency, counters, the cooperative launch.
#include "kernels/common/launch.h"
#include "kernels/fused/team.h"

namespace sdm::fused {

/// CTAs of the kernel that fit one multiprocessor; negative: the driver's error.
template <typename Args>
int resident_ctas(void (*kernel)(Args), std::size_t shared_bytes) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  cudaError_t error =
      cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  int ctas = 0;
  if (error == cudaSuccess)
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&ctas, function, kThreads, shared_bytes);
  if (error != cudaSuccess) (void)cudaGetLastError();  // reported here, not by the next launch
  return error == cudaSuccess ? ctas : -static_cast<int>(error);
}

template <typename Args>
std::string refuse_residency(void (*kernel)(Args), const device::LaunchShape& shape, const Device& device) {
  const int ctas = resident_ctas(kernel, shape.shared_bytes);
  if (ctas < 0)
    return std::string("the kernel cannot be loaded: ") + cudaGetErrorString(static_cast<cudaError_t>(-ctas));
  const auto fit = static_cast<unsigned>(ctas * device.multiprocessors);
  if (shape.grid.x <= fit) return "";
  return "all of its " + std::to_string(shape.grid.x) + " CTAs must be resident at once, and this GPU holds " +
         std::to_string(fit);
}

/// Clears the counters in stream order, then launches; neither overlaps the launch before.
template <typename Args>
void launch_team(void (*kernel)(Args), const device::LaunchShape& shape, LaunchContext context, const Args& args) {
  cudaMemsetAsync(args.counters, 0, counter_bytes(args.dims), device::stream_of(context));
  context.dependent_launch = false;
  device::launch(kernel, shape, context, args);
}

/// CTAs a multiprocessor: a geometry of few warps asks for one.
inline int ctas_wanted(const LaunchContext& context) {
  return context.geometry.warps > 0 && context.geometry.warps < kWarps ? 1 : kCtasPerMultiprocessor;
}
inline TeamShape teams_of(const Dims& dims, const LaunchContext& context) {
  return choose_teams(dims.streams, ctas_wanted(context) * context.device.multiprocessors, useful_ctas(dims));
}
inline device::LaunchShape shape_of(const TeamShape& team, std::size_t shared_bytes) {
  return {.grid = dim3(static_cast<unsigned>(team.teams * team.ctas)),
          .threads = kThreads,
          .shared_bytes = shared_bytes,
          .cooperative = true};
}

}  // namespace sdm::fused
