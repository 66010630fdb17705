#pragma once
#include <memory>

#include "backend/backend.h"

namespace sdm::cuda {

/// Starts a load on streams of its own and returns once it runs. Throws CudaError.
std::unique_ptr<Load> start_load(LoadKind kind, int ordinal, const Device& device, int threads_per_multiprocessor);

}  // namespace sdm::cuda
