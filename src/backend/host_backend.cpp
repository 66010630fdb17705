#include <unistd.h>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <thread>

#include "backend/backend.h"
#include "backend/host_load.h"
#include "base/error.h"

namespace sdm {
namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

std::uint64_t memory_available() {
  std::ifstream file("/proc/meminfo");
  std::string key, unit;
  for (std::uint64_t kib = 0; file >> key >> kib >> unit;)
    if (key == "MemAvailable:") return kib * 1024;
  return 0;
}

class HostBackend final : public Backend {
 public:
  DeviceInfo info() const override {
    DeviceInfo info;
    info.kind = "cpu";
    info.name = cpu_name();
    info.memory_bytes =
        static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::uint64_t>(sysconf(_SC_PAGE_SIZE));
    return info;
  }
  const Device* device() const override { return nullptr; }
  LaunchContext launch_context() const override { return {}; }

  void* allocate(std::size_t bytes) override {
    constexpr std::size_t kAlign = 4096;
    void* memory = std::aligned_alloc(kAlign, (bytes + kAlign - 1) / kAlign * kAlign);
    if (!memory) throw std::bad_alloc();
    return memory;
  }
  void release(void* memory) noexcept override { std::free(memory); }
  std::uint64_t free_memory() const override { return memory_available(); }

  void upload(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void copy(void* to, const void* from, std::size_t bytes) override { std::memcpy(to, from, bytes); }
  void fill(void* to, std::uint8_t byte, std::size_t bytes) override { std::memset(to, byte, bytes); }
  void synchronize() override {}
  void after_launch(std::string_view, int) override {}
  void push_range(std::string_view) override {}
  void pop_range() override {}
  void profiler_start() override {}
  void profiler_stop() override {}

  int mark() override {
    marks_.push_back(std::chrono::steady_clock::now());
    return static_cast<int>(marks_.size()) - 1;
  }
  double between_us(int from, int to) override {
    const auto at = [&](int i) { return marks_[static_cast<std::size_t>(i)]; };
    return std::chrono::duration<double, std::micro>(at(to) - at(from)).count();
  }
  void reset_marks() override { marks_.clear(); }
  void flush_l2() override {}
  double clock_share() const override { return 1.0; }
  std::unique_ptr<Recording> record(const std::function<void()>&) override { return nullptr; }

  std::unique_ptr<Load> start_load(LoadKind kind) override {
    return kind == LoadKind::disturbing ? start_host_load() : nullptr;
  }
  /// One thread has no race: which number comes first changes from call to call instead.
  void add_in_any_order(float* element) override {
    constexpr float kNumbers[] = {1e-3f, 0.37f, 1e3f, 7e-5f, -0.61f};
    const std::size_t count = std::size(kNumbers), first = additions_++;
    for (std::size_t i = 0; i < count; ++i) *element += kNumbers[(first + i) % count];
  }
  /// One thread has no second stream: the clock decides how much has been added by now.
  void add_off_stream(float* element) override {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    *element += static_cast<float>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count() % 1'000'003);
  }
  void crash() override { std::abort(); }
  void never_end() override {
    for (;;) std::this_thread::sleep_for(std::chrono::seconds(1));
  }

 private:
  std::vector<std::chrono::steady_clock::time_point> marks_;
  std::size_t additions_ = 0;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend() { return std::make_unique<HostBackend>(); }

}  // namespace sdm
