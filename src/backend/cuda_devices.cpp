#include "backend/cuda_devices.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "backend/architecture.h"
#include "backend/backend.h"
#include "backend/cuda_check.h"
#include "base/error.h"
#include "base/text.h"

namespace sdm::cuda {
namespace {

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

int driver_cuda_version() {
  int version = 0;
  quietly(cudaDriverGetVersion(&version));
  return version;
}

/// Why the runtime sees no GPU at all.
std::string explain(cudaError_t error) {
  const int driver = driver_cuda_version();
  if (error == cudaErrorInsufficientDriver && driver == 0) return "no NVIDIA driver is installed on this machine";
  if (error == cudaErrorInsufficientDriver)
    return fmt::format("the NVIDIA driver is too old: it supports CUDA {}, this build needs CUDA {}",
                       cuda_version_text(driver), cuda_version_text(CUDART_VERSION));
  if (error == cudaErrorNoDevice || error == cudaSuccess) {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible) return fmt::format("no GPU is visible (CUDA_VISIBLE_DEVICES is \"{}\")", visible);
    return "the NVIDIA driver finds no GPU on this machine";
  }
  return fmt::format("CUDA cannot start: {} ({})", cudaGetErrorName(error), cudaGetErrorString(error));
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

}  // namespace

std::vector<std::string> build_architectures() {
  std::vector<std::string> list;
  std::istringstream text(SDM_CUDA_ARCH_LIST);
  for (std::string item; std::getline(text, item, ',');) list.push_back(item);
  return list;
}

UsableGpus usable_gpus() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  quietly(error);
  if (error != cudaSuccess || count == 0) return {{}, explain(error)};
  UsableGpus gpus;
  const std::vector<std::string> built = build_architectures();
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties{};
    const cudaError_t status = cudaGetDeviceProperties(&properties, ordinal);
    quietly(status);
    const int capability = properties.major * 10 + properties.minor;
    if (status != cudaSuccess)
      gpus.why_none +=
          fmt::format("{}GPU {}: {}", gpus.why_none.empty() ? "" : "; ", ordinal, cudaGetErrorString(status));
    else if (!std::ranges::any_of(built, [&](const std::string& a) { return runs_on(a, capability); }))
      gpus.why_none += fmt::format("{}GPU {} ({}) has compute capability {}.{}, and this build has code for {} only",
                                   gpus.why_none.empty() ? "" : "; ", ordinal, properties.name, properties.major,
                                   properties.minor, join(cuda_architectures()));
    else
      gpus.ordinals.push_back(ordinal);
  }
  if (!gpus.ordinals.empty()) gpus.why_none.clear();
  return gpus;
}

std::string pci_id_of(int ordinal) {
  std::array<char, 32> text{};
  SDM_CUDA(cudaDeviceGetPCIBusId(text.data(), static_cast<int>(text.size()), ordinal));
  return text.data();
}

DeviceInfo describe_gpu(int ordinal, const Nvml& nvml, bool own_context) {
  cudaDeviceProp properties{};
  SDM_CUDA(cudaGetDeviceProperties(&properties, ordinal));
  DeviceInfo info;
  info.kind = "cuda";
  info.name = properties.name;
  info.uuid = uuid_text(properties.uuid);
  info.pci_id = pci_id_of(ordinal);
  info.driver = "CUDA " + cuda_version_text(driver_cuda_version());
  if (const auto version = nvml.driver_version()) info.driver = fmt::format("{} ({})", *version, info.driver);
  info.sm_clock_mhz = nvml.sm_clock_mhz();
  info.max_sm_clock_mhz = nvml.max_sm_clock_mhz();
  info.memory_clock_mhz = nvml.memory_clock_mhz();
  info.temperature_c = nvml.temperature_c();
  info.throttle_reasons = nvml.throttle_reasons();
  info.other_processes = nvml.other_processes(own_context);
  info.compute_capability = properties.major * 10 + properties.minor;
  info.multiprocessors = properties.multiProcessorCount;
  info.memory_bytes = properties.totalGlobalMem;
  info.l2_bytes = static_cast<std::uint64_t>(properties.l2CacheSize);
  return info;
}

}  // namespace sdm::cuda

namespace sdm {

GpuList list_gpus() {
  GpuList list;
  const cuda::UsableGpus gpus = cuda::usable_gpus();
  list.why_none = gpus.why_none;
  for (const int ordinal : gpus.ordinals) {
    try {
      list.devices.push_back(cuda::describe_gpu(ordinal, Nvml(cuda::pci_id_of(ordinal)), false));
    } catch (const CudaError& error) {
      return {{}, error.what()};  // a lost GPU: its neighbours' numbers would no longer be those of make_cuda_backend
    }
  }
  return list;
}

std::string cuda_toolkit_version() { return cuda::cuda_version_text(CUDART_VERSION); }

std::vector<std::string> cuda_architectures() {
  std::vector<std::string> names;
  for (const std::string& built : cuda::build_architectures()) {
    const std::string target = built.substr(0, built.find('-'));
    if (!built.ends_with("-virtual")) names.push_back("sm_" + target);
    if (!built.ends_with("-real")) names.push_back("compute_" + target);
  }
  return names;
}

}  // namespace sdm
