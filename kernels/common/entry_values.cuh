#pragma once
// Small device helpers of the once-per-pass stages: typed element access, warp constants, shared memory. Device only.
#include <cstdint>

#include "kernels/data.h"
#include "numerics/formats.h"

namespace sdm::device {

inline constexpr unsigned kWholeWarp = 0xffffffffu;

__device__ __forceinline__ int lane_id() { return static_cast<int>(threadIdx.x % 32); }
__device__ __forceinline__ int warp_id() { return static_cast<int>(threadIdx.x / 32); }

/// The launch's dynamic shared memory, 16-byte aligned.
__device__ __forceinline__ unsigned char* dynamic_shared() {
  extern __shared__ uint4 sdm_dynamic_shared[];
  return reinterpret_cast<unsigned char*>(sdm_dynamic_shared);
}

/// Strengths and weights, f32 or bf16. The branch is uniform over the launch.
__device__ __forceinline__ float value_at(AnyPtr p, std::int64_t i) {
  return p.dtype == DType::bf16 ? from_bf16(static_cast<const bf16_t*>(p.data)[i])
                                : static_cast<const float*>(p.data)[i];
}
__device__ __forceinline__ void set_value(AnyPtr p, std::int64_t i, float x) {
  if (p.dtype == DType::bf16)
    static_cast<bf16_t*>(p.data)[i] = to_bf16(x);
  else
    static_cast<float*>(p.data)[i] = canonical(x);
}
/// Absolute rows are below 2^31 (spec 2.2).
__device__ __forceinline__ std::int32_t index_at(AnyPtr p, std::int64_t i) {
  return p.dtype == DType::i64 ? static_cast<std::int32_t>(static_cast<const std::int64_t*>(p.data)[i])
                               : static_cast<const std::int32_t*>(p.data)[i];
}

/// -x with the one NaN of stored results: a sign flip alone would carry the sign into a NaN.
__device__ __forceinline__ float negated(float x) { return x == x ? -x : float_of(0x7fffffffu); }

/// use(i, load(i)) for i = first, first + stride, .. below count. kBatch loads are in flight before the first use,
/// which stores would otherwise hold back: the compiler cannot know that they go elsewhere.
template <int kBatch, typename Load, typename Use>
__device__ __forceinline__ void in_batches(int first, int stride, int count, Load&& load, Use&& use) {
  for (int base = first; base < count; base += kBatch * stride) {
    decltype(load(0)) value[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (base + b * stride < count) value[b] = load(base + b * stride);
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (base + b * stride < count) use(base + b * stride, value[b]);
  }
}

template <typename T>
__device__ __forceinline__ T warp_inclusive_sum(T x) {
#pragma unroll
  for (int distance = 1; distance < 32; distance *= 2) {
    const T before = __shfl_up_sync(kWholeWarp, x, distance);
    if (lane_id() >= distance) x += before;
  }
  return x;
}

}  // namespace sdm::device
