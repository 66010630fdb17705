#include "backend/cuda_load.h"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "backend/cuda_check.h"
#include "kernels/load/load.h"

namespace sdm::cuda {
namespace {

using Clock = std::chrono::steady_clock;

DeviceMemory device_memory(std::size_t bytes) {
  void* memory = nullptr;
  SDM_CUDA(cudaMalloc(&memory, bytes));
  return DeviceMemory(memory);
}

/// Copies, arithmetic and L2 thrashing, each on a stream of its own, kept busy by a thread of its own. The arithmetic
/// takes a third of the CTA slots and the thrashing as many, so that the pass under test is slowed, not shut out.
class DisturbingLoad final : public Load {
 public:
  DisturbingLoad(int ordinal, const Device& device)
      : ordinal_(ordinal),
        device_(device),
        words_(2 * std::max<std::size_t>(device.l2_bytes, std::size_t{16} << 20) / sizeof(std::uint32_t)),
        buffer_(device_memory(words_ * sizeof(std::uint32_t))),
        from_(device_memory(kCopyBytes)),
        to_(device_memory(kCopyBytes)),
        sink_(device_memory(sizeof(float) * static_cast<std::size_t>(blocks()))) {
    for (Lane& lane : lanes_) lane = {make_stream(), make_event(cudaEventDisableTiming)};
    thread_ = std::thread([this] { keep_busy(); });
    while (launches_ == 0 && !failed_) std::this_thread::yield();
  }
  ~DisturbingLoad() override {
    stop_ = true;
    thread_.join();
    for (const Lane& lane : lanes_) quietly(cudaStreamSynchronize(lane.stream.get()));
  }
  DisturbingLoad(const DisturbingLoad&) = delete;
  DisturbingLoad& operator=(const DisturbingLoad&) = delete;

  std::string describe() const override {
    return fmt::format("{} launches of copies, arithmetic and L2 thrashing beside it", launches_.load());
  }
  bool lasting() const override { return !failed_; }

 private:
  static constexpr std::size_t kCopyBytes = std::size_t{64} << 20;
  struct Lane {
    Stream stream;
    Event done;
  };

  int blocks() const { return 2 * device_.multiprocessors; }

  void launch(int lane, std::uint32_t turn) {
    const LaunchContext context{device_, lanes_[lane].stream.get(), {}, false};
    if (lane == 0)
      SDM_CUDA(cudaMemcpyAsync(to_.get(), from_.get(), kCopyBytes, cudaMemcpyDeviceToDevice, context.stream));
    if (lane == 1) load::arithmetic(static_cast<float*>(sink_.get()), blocks(), 400, context);
    if (lane == 2) load::thrash(static_cast<std::uint32_t*>(buffer_.get()), words_, turn, blocks(), 200, context);
    SDM_CUDA(cudaGetLastError());
    SDM_CUDA(cudaEventRecord(lanes_[lane].done.get(), context.stream));
  }

  /// One launch in flight and one behind it on every stream, until told to stop.
  void keep_busy() {
    try {
      SDM_CUDA(cudaSetDevice(ordinal_));
      for (std::uint32_t turn = 0; !stop_; ++turn)
        for (int lane = 0; lane < 3; ++lane) {
          const cudaError_t state = cudaEventQuery(lanes_[lane].done.get());
          if (state == cudaErrorNotReady) continue;
          SDM_CUDA(state);
          launch(lane, turn);
          ++launches_;
        }
    } catch (const std::exception&) {
      failed_ = true;  // the pass under test meets the same error, or the check says that the load failed
    }
  }

  int ordinal_;
  Device device_;
  std::size_t words_;
  DeviceMemory buffer_, from_, to_, sink_;
  Lane lanes_[3];
  std::atomic<std::int64_t> launches_ = 0;
  std::atomic<bool> stop_ = false, failed_ = false;
  std::thread thread_;
};

/// load::hold_half with its control words.
class HalfDevice final : public Load {
 public:
  HalfDevice(const Device& device, int threads_per_multiprocessor) : stream_(make_stream()) {
    void* memory = nullptr;
    SDM_CUDA(cudaHostAlloc(&memory, sizeof(load::HoldControl), cudaHostAllocMapped));
    memory_.reset(memory);
    std::memset(memory, 0, sizeof(load::HoldControl));
    void* on_device = nullptr;
    SDM_CUDA(cudaHostGetDevicePointer(&on_device, memory, 0));
    SDM_CUDA(cudaDeviceSynchronize());
    load::hold_half(static_cast<load::HoldControl*>(on_device), threads_per_multiprocessor, kLimitNs,
                    {device, stream_.get(), {}, false});
    SDM_CUDA(cudaGetLastError());
    const auto start = Clock::now();
    while (held() < device.multiprocessors / 2 && Clock::now() - start < std::chrono::seconds(2))
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  ~HalfDevice() override {
    control()->release = 1;
    quietly(cudaStreamSynchronize(stream_.get()));
  }
  HalfDevice(const HalfDevice&) = delete;
  HalfDevice& operator=(const HalfDevice&) = delete;

  std::string describe() const override {
    return fmt::format("{} CTAs, each half of a multiprocessor, held beside it", held());
  }
  bool lasting() const override { return held() > 0 && !control()->expired; }

 private:
  static constexpr std::uint64_t kLimitNs = 5'000'000'000;
  volatile load::HoldControl* control() const { return static_cast<volatile load::HoldControl*>(memory_.get()); }
  int held() const { return static_cast<int>(control()->held); }

  Stream stream_;
  PinnedMemory memory_;
};

}  // namespace

std::unique_ptr<Load> start_load(LoadKind kind, int ordinal, const Device& device, int threads_per_multiprocessor) {
  if (kind == LoadKind::disturbing) return std::make_unique<DisturbingLoad>(ordinal, device);
  return std::make_unique<HalfDevice>(device, threads_per_multiprocessor);
}

}  // namespace sdm::cuda
