#pragma once
// Host-side helpers of the launchers. Launchers only launch: ranges, error checks and timing are the executor's.
#include <cuda_runtime.h>

#include <string>
#include <utility>

#include "base/dispatch.h"
#include "kernels/stage.h"

namespace sdm::device {

inline cudaStream_t stream_of(const LaunchContext& context) { return static_cast<cudaStream_t>(context.stream); }

template <typename A, typename B>
constexpr auto ceil_div(A a, B b) {
  return (a + b - 1) / b;
}

/// Launch geometry of one kernel, computed outside the kernel from shapes and device facts, printed in the result.
struct LaunchShape {
  dim3 grid = dim3(1);
  int threads = 256;
  std::size_t shared_bytes = 0;
  int cluster = 1;           ///< CTAs of a cluster, along x (sm_90 and newer; more than 8 are a non-portable size)
  bool cooperative = false;  ///< all CTAs must be resident at once, or the launch fails
};

inline std::string describe(const LaunchShape& s) {
  std::string text = "grid ";  // append: gcc 12 at -O3 warns of "x" + std::string
  text.append(std::to_string(s.grid.x));
  if (s.grid.y > 1 || s.grid.z > 1) text.append("x").append(std::to_string(s.grid.y));
  if (s.grid.z > 1) text.append("x").append(std::to_string(s.grid.z));
  text.append(", ").append(std::to_string(s.threads)).append(" threads");
  if (s.shared_bytes > 0) text.append(", ").append(std::to_string(s.shared_bytes)).append(" B shared");
  if (s.cluster > 1) text.append(", clusters of ").append(std::to_string(s.cluster));
  return text;
}

/// Launches kernel(args...) with the shape; raises the shared-memory limit where more than 48 KiB are asked for, and
/// sets the dependent-launch attribute where the context asks for it (the kernel must then call
/// wait_for_previous_grid() before it touches what the previous kernel writes).
template <typename... KernelArgs, typename... Args>
void launch(void (*kernel)(KernelArgs...), const LaunchShape& shape, const LaunchContext& context, Args&&... args) {
  const auto* function = reinterpret_cast<const void*>(kernel);
  // 48 KiB hold static shared memory as well, so the limit is raised well before.
  if (shape.shared_bytes > 32 * 1024)
    cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shape.shared_bytes));
  if (shape.cluster > 8) cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  cudaLaunchConfig_t config{};
  config.gridDim = shape.grid;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = stream_of(context);
  cudaLaunchAttribute attributes[4]{};
  config.attrs = attributes;
  if (context.dependent_launch) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (context.share == Share::first) {
    attributes[config.numAttrs].id = cudaLaunchAttributePriority;
    attributes[config.numAttrs++].val.priority = -1;  // streams have 0; less goes first
  }
  if (shape.cluster > 1) {
    attributes[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
    attributes[config.numAttrs++].val.clusterDim = {static_cast<unsigned>(shape.cluster), 1, 1};
  }
  if (shape.cooperative) {
    attributes[config.numAttrs].id = cudaLaunchAttributeCooperative;
    attributes[config.numAttrs++].val.cooperative = 1;
  }
  cudaLaunchKernelEx(&config, kernel, std::forward<Args>(args)...);
}

#if defined(__CUDACC__)
/// With dependent launch: waits until the previous grid's writes are visible. Free without it.
__device__ __forceinline__ void wait_for_previous_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Lets the next grid start its prologue.
__device__ __forceinline__ void allow_next_grid() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}
/// The `ready` of a step's kernels: once the previous grid is done, the next one may start its prologue.
struct TakeTurn {
  __device__ __forceinline__ void operator()() const {
    wait_for_previous_grid();
    allow_next_grid();
  }
};
#endif

}  // namespace sdm::device
