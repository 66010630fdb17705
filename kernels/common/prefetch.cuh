#pragma once
// Device code only.

namespace sdm::device {

/// Asks for the 128-byte line at `p` in L2.
__device__ __forceinline__ void prefetch_l2(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

}  // namespace sdm::device
