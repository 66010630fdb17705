#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "backend/cuda_check.h"
#include "base/parallel.h"

namespace sdm::cuda {

/// Copies between pageable host memory and the GPU through two pinned halves: while one half is on the bus, host
/// threads fill or empty the other. One thread alone copies at a fraction of the bus's speed, and so does the driver's
/// own path for pageable memory. Every copy is in stream order and complete when it returns.
class Staging {
 public:
  void upload(cudaStream_t stream, void* to, const void* from, std::size_t bytes);
  void download(cudaStream_t stream, void* to, const void* from, std::size_t bytes);
  /// Hands the bytes to `consume` in order, out of the pinned halves.
  void read_back(cudaStream_t stream, const void* from, std::size_t bytes,
                 const std::function<void(std::span<const std::byte>)>& consume);

 private:
  static constexpr std::size_t kHalfBytes = std::size_t{32} << 20;
  /// Up to here the driver's path is as fast, and the pinned memory need not exist.
  static constexpr std::size_t kSmallBytes = std::size_t{1} << 20;
  static constexpr int kMostThreads = 8;

  struct Half {
    PinnedMemory memory;
    Event done;
  };
  void prepare();
  void host_copy(void* to, const void* from, std::size_t bytes);

  Half halves_[2];  ///< made by the first large copy
  std::unique_ptr<Parallel> threads_;
};

}  // namespace sdm::cuda
