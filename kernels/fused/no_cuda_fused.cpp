#include "kernels/fused/fused.h"

namespace sdm::fused {

std::string refuse_residency(const Forward&, const LaunchContext&) { return "this build has no CUDA kernels"; }
std::string refuse_residency(const Backward&, const LaunchContext&) { return "this build has no CUDA kernels"; }
void launch(const Forward&, const LaunchContext&) {}
void launch(const Backward&, const LaunchContext&) {}
std::string describe(const Forward&, const LaunchContext&) { return ""; }
std::string describe(const Backward&, const LaunchContext&) { return ""; }

}  // namespace sdm::fused
