#pragma once
// Tensor-core fragments of sm_80 and newer for bf16 and f16 with fp32 accumulators. Device code only.
// With g = lane/4, q = lane%4, an accumulator tile of 16 x 8 holds rows g and g+8 of columns 2q and 2q+1:
// d[0], d[1] = [g][2q], [g][2q+1]; d[2], d[3] = [g+8][2q], [g+8][2q+1].
#include <cstdint>

#include "numerics/f16.h"

namespace sdm::dense_rescan {

__device__ __forceinline__ std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

/// Four 8 x 8 matrices of 16-bit elements; lanes 8i..8i+7 give the row addresses of matrix i, a lane gets elements
/// [g][2q], [g][2q+1] of each.
__device__ __forceinline__ void load_matrices(std::uint32_t (&d)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address)
               : "memory");
}
/// The same, transposed: a lane gets [2q][g], [2q+1][g] of each.
__device__ __forceinline__ void load_matrices_transposed(std::uint32_t (&d)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
               : "r"(address)
               : "memory");
}

/// d += a b with a 16 x 16, b 16 x 8. a: {rows 0-7, rows 8-15} x {k 0-7}, then x {k 8-15}; b: {k 0-7}, {k 8-15}.
template <typename T>
__device__ __forceinline__ void mma_tile(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  if constexpr (std::is_same_v<T, bf16_t>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, "
        "%2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
        "%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Keeps the compiler from moving accumulators of asynchronous products or loads across a fence or a wait.
template <int kCount>
__device__ __forceinline__ void pin(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

/// Two values rounded to T and packed, `low` at the lower address.
template <typename T>
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  std::uint32_t result;
  if constexpr (std::is_same_v<T, bf16_t>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
}
template <typename T>
__device__ __forceinline__ float low_of(std::uint32_t pair) {
  return load_element(T{static_cast<std::uint16_t>(pair)});
}
template <typename T>
__device__ __forceinline__ float high_of(std::uint32_t pair) {
  return load_element(T{static_cast<std::uint16_t>(pair >> 16)});
}

}  // namespace sdm::dense_rescan
