#include "backend/backend.h"
#include "base/error.h"

namespace sdm {

GpuList list_gpus() { return {{}, "this build has no GPU code (it was configured without CUDA)"}; }

std::unique_ptr<Backend> make_cuda_backend(int /*index*/, bool /*force_portable*/) {
  throw Unsupported(list_gpus().why_none);
}

std::string cuda_toolkit_version() { return {}; }
std::vector<std::string> cuda_architectures() { return {}; }

}  // namespace sdm
