#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sdm {

/// What the driver's management library knows about one GPU. The library is loaded at run time and is optional: without
/// it (or without the GPU) every value is missing.
class Nvml {
 public:
  /// `pci_id` as the CUDA runtime prints it: "0000:18:00.0".
  explicit Nvml(const std::string& pci_id);
  ~Nvml();
  Nvml(Nvml&&) noexcept;
  Nvml& operator=(Nvml&&) noexcept;

  bool available() const;
  std::optional<std::string> driver_version() const;  ///< "580.82.07"
  std::optional<double> sm_clock_mhz() const;
  std::optional<double> max_sm_clock_mhz() const;
  std::optional<double> memory_clock_mhz() const;
  std::optional<double> temperature_c() const;
  std::vector<std::string> throttle_reasons() const;
  /// Compute processes on the GPU besides this one. In a container the list holds process numbers of another name space
  /// or nothing at all, so the caller says whether this process has a context on the GPU (and must be in the list).
  std::optional<int> other_processes(bool own_context) const;

 private:
  struct Library;
  std::unique_ptr<Library> library_;
  void* gpu_ = nullptr;
};

/// The reasons of nvmlDeviceGetCurrentClocksThrottleReasons in words, one a bit; unknown bits as "reason 0x...".
std::vector<std::string> throttle_words(unsigned long long reasons);

}  // namespace sdm
