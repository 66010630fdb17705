#pragma once
// Device helpers for rows of a bank: 16-byte vectors and single elements, widened to float. Device code only.
#include <cstdint>

#include "numerics/formats.h"

namespace sdm::device {

/// Elements of T in a 16-byte vector: 8 bf16 or 4 f32.
template <typename T>
inline constexpr int kVec = 16 / static_cast<int>(sizeof(T));

/// Widens 16 bytes of T to floats.
__device__ __forceinline__ void widen(const uint4& raw, float (&out)[4], float*) {
  out[0] = __uint_as_float(raw.x), out[1] = __uint_as_float(raw.y);
  out[2] = __uint_as_float(raw.z), out[3] = __uint_as_float(raw.w);
}
__device__ __forceinline__ void widen(const uint4& raw, float (&out)[8], bf16_t*) {
  const std::uint32_t words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    out[2 * i] = __uint_as_float(words[i] << 16);
    out[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
}
template <typename T>
__device__ __forceinline__ void widen(const uint4& raw, float (&out)[kVec<T>]) {
  widen(raw, out, static_cast<T*>(nullptr));
}

/// Two floats as packed bf16 bits (`low` in the low half), nearest even; the bits of to_bf16.
__device__ __forceinline__ std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

/// Rounds floats to 16 bytes of T.
__device__ __forceinline__ uint4 narrow(const float (&in)[4], float*) {
  return {__float_as_uint(in[0]), __float_as_uint(in[1]), __float_as_uint(in[2]), __float_as_uint(in[3])};
}
__device__ __forceinline__ uint4 narrow(const float (&in)[8], bf16_t*) {
  return {pack_bf16(in[0], in[1]), pack_bf16(in[2], in[3]), pack_bf16(in[4], in[5]), pack_bf16(in[6], in[7])};
}
template <typename T>
__device__ __forceinline__ uint4 narrow(const float (&in)[kVec<T>]) {
  return narrow(in, static_cast<T*>(nullptr));
}

// --- global memory ---------------------------------------------------------------------------------------------------

/// Read-only data that no kernel of the launch writes.
__device__ __forceinline__ uint4 load_stream(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}
/// Coherent load that leaves no line in L1: for rows that are read once and may have been written by an earlier launch.
__device__ __forceinline__ uint4 load_row(const void* p) {
  uint4 v;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p)
               : "memory");
  return v;
}
__device__ __forceinline__ void store_vec(void* p, const uint4& v) { *static_cast<uint4*>(p) = v; }
/// Stores that the compiler knows to be of global memory, also where it lost sight of what an address came from: loads
/// from shared memory may then pass them.
__device__ __forceinline__ void store_global(void* p, const uint4& v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(p), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}
__device__ __forceinline__ void store_global(void* p, const uint2& v) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}

// --- lane trees (twins of numerics/order.h); every lane gets the sum -------------------------------------------------

/// Pairs lanes at distance 1, 2, 4, .. below `lanes` (a power of two); undo and gather_grad.
template <int kLanesUsed = 32>
__device__ __forceinline__ float tree_sum_near_first(float x) {
#pragma unroll
  for (int distance = 1; distance < kLanesUsed; distance *= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
  return x;
}
/// Pairs lanes at distance 16, 8, 4, 2, 1; read_grad and d_beta.
__device__ __forceinline__ float tree_sum_far_first(float x) {
#pragma unroll
  for (int distance = 16; distance >= 1; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
  return x;
}

}  // namespace sdm::device
