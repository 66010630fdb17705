#include "backend/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace sdm {
namespace {

// The few prototypes and values of NVML's stable C interface that are used here; its header need not be installed.
constexpr int kSuccess = 0, kInsufficientSize = 7;
constexpr unsigned kSmClock = 1, kMemoryClock = 2, kGpuTemperature = 0;
struct ProcessInfo {
  unsigned process_id;
  unsigned long long used_memory;
  unsigned gpu_instance, compute_instance;
};
using Gpu = void*;

struct CloseLibrary {
  void operator()(void* handle) const noexcept { dlclose(handle); }
};

struct ThrottleWord {
  unsigned long long bit;
  std::string_view word;
};
constexpr ThrottleWord kThrottleWords[] = {{0x1, "idle"},
                                           {0x2, "application clock setting"},
                                           {0x4, "software power cap"},
                                           {0x8, "hardware slowdown"},
                                           {0x10, "sync boost"},
                                           {0x20, "software thermal slowdown"},
                                           {0x40, "hardware thermal slowdown"},
                                           {0x80, "hardware power brake"},
                                           {0x100, "display clock setting"}};

}  // namespace

/// The loaded library and its entry points; a missing entry point is null.
struct Nvml::Library {
  std::unique_ptr<void, CloseLibrary> handle{dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL)};
  bool initialised = false;
  int (*shutdown)() = nullptr;
  int (*driver_version)(char*, unsigned) = nullptr;
  int (*by_pci)(const char*, Gpu*) = nullptr;
  int (*clock)(Gpu, unsigned, unsigned*) = nullptr;
  int (*max_clock)(Gpu, unsigned, unsigned*) = nullptr;
  int (*temperature)(Gpu, unsigned, unsigned*) = nullptr;
  int (*throttle)(Gpu, unsigned long long*) = nullptr;
  int (*processes)(Gpu, unsigned*, ProcessInfo*) = nullptr;

  Library() {
    if (!handle) return;
    int (*init)() = nullptr;
    bind(init, "nvmlInit_v2");
    bind(shutdown, "nvmlShutdown");
    bind(driver_version, "nvmlSystemGetDriverVersion");
    bind(by_pci, "nvmlDeviceGetHandleByPciBusId_v2");
    bind(clock, "nvmlDeviceGetClockInfo");
    bind(max_clock, "nvmlDeviceGetMaxClockInfo");
    bind(temperature, "nvmlDeviceGetTemperature");
    bind(throttle, "nvmlDeviceGetCurrentClocksThrottleReasons");
    if (!throttle) bind(throttle, "nvmlDeviceGetCurrentClocksEventReasons");  // its newer name
    bind(processes, "nvmlDeviceGetComputeRunningProcesses_v3");
    initialised = init && init() == kSuccess;
  }
  ~Library() {
    if (initialised && shutdown) shutdown();
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <typename Function>
  void bind(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(dlsym(handle.get(), name));
  }

  /// The value of a call `function(gpu, arguments..., &value)`.
  template <typename Value, typename... Parameters, typename... Arguments>
  std::optional<Value> ask(int (*function)(Gpu, Parameters...), Gpu gpu, Arguments... arguments) const {
    Value value{};
    if (!gpu || !function || function(gpu, arguments..., &value) != kSuccess) return std::nullopt;
    return value;
  }
};

Nvml::Nvml(const std::string& pci_id) : library_(std::make_unique<Library>()) {
  if (!library_->initialised || !library_->by_pci || library_->by_pci(pci_id.c_str(), &gpu_) != kSuccess)
    gpu_ = nullptr;
}
Nvml::~Nvml() = default;
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;

bool Nvml::available() const { return gpu_ != nullptr; }

std::optional<std::string> Nvml::driver_version() const {
  std::array<char, 128> text{};
  if (!library_->initialised || !library_->driver_version) return std::nullopt;
  if (library_->driver_version(text.data(), static_cast<unsigned>(text.size()) - 1) != kSuccess) return std::nullopt;
  return std::string(text.data());
}

std::optional<double> Nvml::sm_clock_mhz() const { return library_->ask<unsigned>(library_->clock, gpu_, kSmClock); }
std::optional<double> Nvml::max_sm_clock_mhz() const {
  return library_->ask<unsigned>(library_->max_clock, gpu_, kSmClock);
}
std::optional<double> Nvml::memory_clock_mhz() const {
  return library_->ask<unsigned>(library_->clock, gpu_, kMemoryClock);
}
std::optional<double> Nvml::temperature_c() const {
  return library_->ask<unsigned>(library_->temperature, gpu_, kGpuTemperature);
}

std::vector<std::string> Nvml::throttle_reasons() const {
  return throttle_words(library_->ask<unsigned long long>(library_->throttle, gpu_).value_or(0));
}

std::optional<int> Nvml::other_processes(bool own_context) const {
  if (!gpu_ || !library_->processes) return std::nullopt;
  std::array<ProcessInfo, 64> list{};
  auto count = static_cast<unsigned>(list.size());
  const int status = library_->processes(gpu_, &count, list.data());
  if (status != kSuccess && status != kInsufficientSize) return std::nullopt;  // the latter still tells the count
  const auto own = static_cast<unsigned>(getpid());
  const auto listed = list.begin() + std::min<std::size_t>(count, list.size());
  const bool found = std::any_of(list.begin(), listed, [&](const ProcessInfo& p) { return p.process_id == own; });
  if (own_context && count == 0) return std::nullopt;  // the list hides this process, so it may hide others
  return static_cast<int>(count) - (found || own_context ? 1 : 0);
}

std::vector<std::string> throttle_words(unsigned long long reasons) {
  std::vector<std::string> words;
  for (const auto& [bit, word] : kThrottleWords) {
    if (reasons & bit) words.emplace_back(word);
    reasons &= ~bit;
  }
  if (reasons != 0) words.push_back(fmt::format("reason 0x{:x}", reasons));
  return words;
}

}  // namespace sdm
