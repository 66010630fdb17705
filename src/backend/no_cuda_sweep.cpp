#include "base/error.h"
#include "kernels/numeric_sweep/numeric_sweep.h"

namespace sdm::sweep {

// A build without CUDA has no backend with a device, so nothing can come here.
void launch_sums(Function, std::uint64_t*, std::uint32_t, std::uint64_t, const LaunchContext&) {
  throw InternalError("this build has no device code");
}
void launch_outputs(Function, std::uint32_t*, std::uint32_t, std::uint64_t, const LaunchContext&) {
  throw InternalError("this build has no device code");
}

}  // namespace sdm::sweep
