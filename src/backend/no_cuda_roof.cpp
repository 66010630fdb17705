#include "base/error.h"
#include "kernels/roof/roof.h"

namespace sdm::roof {

// Never met: without CUDA there is no backend with a device.
void launch(const RowPass& /*pass*/, const LaunchContext& /*context*/) {
  throw Unsupported("this build has no GPU code (it was configured without CUDA)");
}

}  // namespace sdm::roof
