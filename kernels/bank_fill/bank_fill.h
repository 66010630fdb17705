#pragma once
// A generated bank written in place on the GPU, with the bits that fill_bank (workload/sparse.h) gives on the host. The
// host needs seconds for a bank of gigabytes and its way over the bus.
#include <cstdint>

#include "base/dtype.h"
#include "kernels/stage.h"

namespace sdm::bank_fill {

struct Fill {
  void* bank = nullptr;  ///< [count], 16-byte aligned
  DType dtype = DType::f32;
  std::int64_t count = 0;
  std::uint64_t seed = 0;
  bool gradient = false;  ///< the initial gradient bank instead of the memory bank
};

/// On the context's stream; CUDA builds only.
void launch(const Fill& fill, const LaunchContext& context);

}  // namespace sdm::bank_fill
