#include "backend/host_load.h"

#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "numerics/fp.h"

namespace sdm {
namespace {

class HostLoad final : public Load {
 public:
  HostLoad() {
    const unsigned count = std::max(1u, std::thread::hardware_concurrency()) + 1;
    for (unsigned i = 0; i < count; ++i) threads_.emplace_back([this] { keep_busy(); });
    while (rounds_ == 0) std::this_thread::yield();
  }
  ~HostLoad() override {
    stop_ = true;
    for (std::thread& thread : threads_) thread.join();
  }
  HostLoad(const HostLoad&) = delete;
  HostLoad& operator=(const HostLoad&) = delete;

  std::string describe() const override {
    return fmt::format("{} threads copied and computed beside it", threads_.size());
  }
  bool lasting() const override { return true; }

 private:
  void keep_busy() {
    constexpr std::size_t kBytes = std::size_t{4} << 20;  // more than a second-level cache
    std::vector<unsigned char> from(kBytes, 1), to(kBytes);
    float x = 0.5f;
    while (!stop_) {
      std::memcpy(to.data(), from.data(), kBytes);
      for (int i = 0; i < 100'000; ++i) x = fma_rn(x, 0.999f, 0.5f);
      from[0] = static_cast<unsigned char>(to[kBytes / 2] + (x > 1.0f));
      ++rounds_;
    }
  }

  std::atomic<bool> stop_ = false;
  std::atomic<std::int64_t> rounds_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<Load> start_host_load() { return std::make_unique<HostLoad>(); }

}  // namespace sdm
