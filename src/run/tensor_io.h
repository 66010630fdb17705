#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "pipeline/tensor.h"

namespace sdm {

/// A copy of a tensor on the host.
std::vector<std::byte> download_tensor(Backend& backend, const Tensor& tensor);

/// XXH3-128 hex of a tensor's values; a device tensor travels in pieces.
std::string digest_of(Backend& backend, const Tensor& tensor);

}  // namespace sdm
