#pragma once
// Asynchronous copies global -> shared (cp.async, sm_80 and up). Device code only. A thread waits for its own copies;
// what another thread copied is visible after that thread's wait and a barrier.
#include <cstdint>

namespace sdm::device {

/// Both addresses are multiples of kBytes. 16-byte copies leave no line in L1.
template <int kBytes>
__device__ __forceinline__ void copy_async(void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(target), "l"(global) : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(target), "l"(global), "n"(kBytes) : "memory");
}

/// copy_async() where `on`, as a predicate: no branch comes between the copies of several rows.
template <int kBytes>
__device__ __forceinline__ void copy_async_on(bool on, void* shared, const void* global) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16)
    asm volatile(
        "{\n .reg .pred on;\n setp.ne.u32 on, %2, 0;\n"
        " @on cp.async.cg.shared.global [%0], [%1], 16;\n}" ::"r"(target),
        "l"(global), "r"(static_cast<unsigned>(on))
        : "memory");
  else
    asm volatile(
        "{\n .reg .pred on;\n setp.ne.u32 on, %2, 0;\n"
        " @on cp.async.ca.shared.global [%0], [%1], %3;\n}" ::"r"(target),
        "l"(global), "r"(static_cast<unsigned>(on)), "n"(kBytes)
        : "memory");
}

/// Copies the first `present` (1 .. 4) bytes of an aligned word and fills the rest with zeros.
__device__ __forceinline__ void copy_async_part(void* shared, const void* global, int present) {
  const auto target = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(global), "r"(present) : "memory");
}

/// Copies 16 bytes, or fills with zeros; both addresses are multiples of 16 all the same. `target`: an address in
/// shared memory; `policy`: of L2.
__device__ __forceinline__ void copy_async_if(bool on, std::uint32_t target, const void* global, std::uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(target), "l"(global),
               "r"(on ? 16 : 0), "l"(policy)
               : "memory");
}
__device__ __forceinline__ void copy_async_if(bool on, void* shared, const void* global, std::uint64_t policy) {
  copy_async_if(on, static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)), global, policy);
}

/// Copies the first `present` (0 .. 16) bytes of an aligned vector to a shared address and fills the rest with zeros.
__device__ __forceinline__ void copy_async_part(std::uint32_t shared, const void* global, int present) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(present) : "memory");
}

/// Closes a group of copies: all since the last call. An empty group counts.
__device__ __forceinline__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int kPending>
__device__ __forceinline__ void wait_copies_but() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Waits until at most `pending` (0 .. 8, the same in all threads of a warp) of this thread's newest groups are on
/// their way. The instruction wants a constant; a smaller one than asked for would only wait longer.
__device__ __forceinline__ void wait_copies_but(int pending) {
  if (pending == 1) return wait_copies_but<1>();  // the usual ring
  asm("" : "+r"(pending));                        // keeps it out of the switch, which begins with an indirect jump
  switch (pending) {
    case 8: return wait_copies_but<8>();
    case 7: return wait_copies_but<7>();
    case 4: return wait_copies_but<4>();
    case 3: return wait_copies_but<3>();
    case 2: return wait_copies_but<2>();
    default: return wait_copies_but<0>();
  }
}

}  // namespace sdm::device
