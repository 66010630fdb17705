#pragma once
#include <cuda_runtime.h>

namespace sdm::cuda {

/// Whether the current GPU can load this build's portable kernels: cudaSuccess, or cudaErrorNoKernelImageForDevice and
/// its like. Makes a context.
cudaError_t probe_kernel_image();

}  // namespace sdm::cuda
