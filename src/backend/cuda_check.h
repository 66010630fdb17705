#pragma once
// CUDA calls that throw, owners that do not, for the files of the CUDA backend alone.
#include <cuda_runtime.h>

#include <memory>
#include <string>

namespace sdm::cuda {

/// Whether an error means that the context is lost: every later call of this process on that GPU fails, too.
bool is_sticky(cudaError_t error);

/// Throws sdm::CudaError: "<what> failed: <name> (<description>)[; <detail>] [<file>:<line>]". Clears the error first,
/// so that it is not reported again by the next call (a sticky one cannot be cleared).
[[noreturn]] void fail(cudaError_t error, const char* what, const char* file, int line, const std::string& detail = {});

inline void check(cudaError_t error, const char* what, const char* file, int line) {
  if (error != cudaSuccess) [[unlikely]]
    fail(error, what, file, line);
}

/// For destructors. Whatever made the call fail was reported by the call that met it first, or harms nobody now.
inline void quietly(cudaError_t error) noexcept {
  if (error != cudaSuccess) (void)cudaGetLastError();
}

template <auto destroy>
struct Destroy {
  template <typename Handle>
  void operator()(Handle* handle) const noexcept {
    quietly(destroy(handle));
  }
};
using Stream = std::unique_ptr<CUstream_st, Destroy<cudaStreamDestroy>>;
using Event = std::unique_ptr<CUevent_st, Destroy<cudaEventDestroy>>;
using Graph = std::unique_ptr<CUgraph_st, Destroy<cudaGraphDestroy>>;
using GraphExec = std::unique_ptr<CUgraphExec_st, Destroy<cudaGraphExecDestroy>>;

struct FreeDevice {
  void operator()(void* memory) const noexcept { quietly(cudaFree(memory)); }
};
struct FreePinned {
  void operator()(void* memory) const noexcept { quietly(cudaFreeHost(memory)); }
};
using DeviceMemory = std::unique_ptr<void, FreeDevice>;
using PinnedMemory = std::unique_ptr<void, FreePinned>;

/// A stream of its own that does not wait for the default stream.
Stream make_stream();
/// cudaEventDefault (with timing) or cudaEventDisableTiming.
Event make_event(unsigned flags);

}  // namespace sdm::cuda

/// Runs a runtime call; throws sdm::CudaError with the call's text and place.
#define SDM_CUDA(call) ::sdm::cuda::check((call), #call, __FILE__, __LINE__)
