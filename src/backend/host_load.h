#pragma once
#include <memory>

#include "backend/backend.h"

namespace sdm {

/// Threads that copy and compute until the object goes, one per hardware thread and one more: the pass under test must
/// share every core and cache.
std::unique_ptr<Load> start_host_load();

}  // namespace sdm
