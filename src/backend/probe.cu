#include "backend/cuda_probe.h"

namespace sdm::cuda {
namespace {

__global__ void probe_kernel() {}

}  // namespace

cudaError_t probe_kernel_image() {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(probe_kernel));
}

}  // namespace sdm::cuda
