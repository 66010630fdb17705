#pragma once
// Four neighbouring entries a thread: accesses of 16 bytes. Device code only.
#include "kernels/common/quads.cuh"
#include "kernels/data.h"

namespace sdm::decay_sums {

/// Elements i .. i + 3 of those below `count`; zeros past them.
template <typename T>
__device__ __forceinline__ float4 load_four(const T* at, int i, int count, bool vectors) {
  float x[4] = {};
  if (vectors && i + 4 <= count) {
    device::Quad<T> bits = *reinterpret_cast<const device::Quad<T>*>(at + i);
    device::widen_quad(bits, x);
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (i + j < count) x[j] = load_element(at[i + j]);
  }
  return make_float4(x[0], x[1], x[2], x[3]);
}
/// `vectors`: then all four are there.
template <typename T>
__device__ __forceinline__ void store_four(T* at, int i, int count, bool vectors, const float4& value) {
  const float x[4] = {value.x, value.y, value.z, value.w};
  if (vectors) {
    device::Quad<T> bits;
    device::narrow_quad(x, bits);
    *reinterpret_cast<device::Quad<T>*>(at + i) = bits;
  } else {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      if (i + j < count) at[i + j] = store_element<T>(x[j]);
  }
}
__device__ __forceinline__ void store_four(AnyPtr at, std::int64_t from, int i, int count, bool vectors,
                                           const float4& value) {
  if (at.dtype == DType::bf16)
    store_four(static_cast<bf16_t*>(at.data) + from, i, count, vectors, value);
  else
    store_four(static_cast<float*>(at.data) + from, i, count, vectors, value);
}
__device__ __forceinline__ float4& four_at(float* shared, int i) { return *reinterpret_cast<float4*>(shared + i); }

/// body(e) for the CTA's share of entries 0 .. count-1, four at a time from e on.
template <typename Body>
__device__ __forceinline__ void in_fours(int count, Body&& body) {
#pragma unroll 1
  for (int e = 4 * static_cast<int>(threadIdx.x); e < count; e += 4 * static_cast<int>(blockDim.x)) body(e);
}

}  // namespace sdm::decay_sums
