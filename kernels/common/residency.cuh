#pragma once
// Device code only.

namespace sdm::device {

/// Threads that a multiprocessor holds: what __launch_bounds__ may count on.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
inline constexpr int kResidentThreads = 1536;
#else
inline constexpr int kResidentThreads = 2048;
#endif

}  // namespace sdm::device
