#pragma once
#include <string>
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

/// The CMake architectures of this build.
std::vector<std::string> build_architectures();

}  // namespace sdm::cuda
