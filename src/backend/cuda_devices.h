#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "backend/nvml.h"
#include "report/result.h"

namespace sdm::cuda {

/// CUDA ordinals of the GPUs that this build has code for, or why there is none. Makes no context and never throws
/// CudaError.
struct UsableGpus {
  std::vector<int> ordinals;
  std::string why_none;
};
UsableGpus usable_gpus();

/// "0000:18:00.0". Throws CudaError.
std::string pci_id_of(int ordinal);

/// `own_context`: whether this process already has a context on the GPU. Throws CudaError.
DeviceInfo describe_gpu(int ordinal, const Nvml& nvml, bool own_context);

/// Whether code built for a CMake architecture ("90a-real", "80-real", "90-virtual", "120") runs on a GPU of compute
/// capability `compute_capability` (90 for 9.0). Machine code runs on the same major and any later minor, an "a" target
/// on its own capability alone, an "f" target within its family, PTX on anything later.
bool runs_on(std::string_view architecture, int compute_capability);

/// The CMake architectures of this build.
std::vector<std::string> build_architectures();

}  // namespace sdm::cuda
