#include "backend/cuda_staging.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>

namespace sdm::cuda {

void Staging::prepare() {
  if (threads_) return;
  for (Half& half : halves_) {
    void* memory = nullptr;
    SDM_CUDA(cudaMallocHost(&memory, kHalfBytes));
    half.memory.reset(memory);
    half.done = make_event(cudaEventDisableTiming);
  }
  threads_ =
      std::make_unique<Parallel>(std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kMostThreads));
}

void Staging::host_copy(void* to, const void* from, std::size_t bytes) {
  constexpr std::int64_t kGrain = std::int64_t{1} << 20;
  threads_->for_ranges(static_cast<std::int64_t>(bytes), kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::memcpy(static_cast<char*>(to) + begin, static_cast<const char*>(from) + begin,
                static_cast<std::size_t>(end - begin));
  });
}

void Staging::upload(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  if (bytes > kSmallBytes) {
    prepare();
    int turn = 0;
    for (std::size_t at = 0; at < bytes; at += kHalfBytes, turn ^= 1) {
      const std::size_t length = std::min(kHalfBytes, bytes - at);
      Half& half = halves_[turn];
      SDM_CUDA(cudaEventSynchronize(half.done.get()));  // the half's previous content has left
      host_copy(half.memory.get(), static_cast<const char*>(from) + at, length);
      SDM_CUDA(cudaMemcpyAsync(static_cast<char*>(to) + at, half.memory.get(), length, cudaMemcpyHostToDevice, stream));
      SDM_CUDA(cudaEventRecord(half.done.get(), stream));
    }
  } else if (bytes > 0) {
    SDM_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
  }
  SDM_CUDA(cudaStreamSynchronize(stream));
}

void Staging::download(cudaStream_t stream, void* to, const void* from, std::size_t bytes) {
  if (bytes <= kSmallBytes) {
    if (bytes > 0) SDM_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream));
    SDM_CUDA(cudaStreamSynchronize(stream));
    return;
  }
  read_back(stream, from, bytes, [&](std::span<const std::byte> piece) {
    host_copy(to, piece.data(), piece.size());
    to = static_cast<std::byte*>(to) + piece.size();
  });
}

void Staging::read_back(cudaStream_t stream, const void* from, std::size_t bytes,
                        const std::function<void(std::span<const std::byte>)>& consume) {
  if (bytes == 0) return;
  prepare();
  const auto start = [&](std::size_t at, int turn) {
    Half& half = halves_[turn];
    const std::size_t length = std::min(kHalfBytes, bytes - at);
    SDM_CUDA(cudaMemcpyAsync(half.memory.get(), static_cast<const char*>(from) + at, length, cudaMemcpyDeviceToHost,
                             stream));
    SDM_CUDA(cudaEventRecord(half.done.get(), stream));
  };
  start(0, 0);
  int turn = 0;
  for (std::size_t at = 0; at < bytes; at += kHalfBytes, turn ^= 1) {
    if (at + kHalfBytes < bytes) start(at + kHalfBytes, turn ^ 1);
    SDM_CUDA(cudaEventSynchronize(halves_[turn].done.get()));
    consume({static_cast<const std::byte*>(halves_[turn].memory.get()), std::min(kHalfBytes, bytes - at)});
  }
}

}  // namespace sdm::cuda
