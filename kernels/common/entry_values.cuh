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

/// Division of numbers below 2^16 by a number of 1 .. 256: the product with ceil(2^32/d) is off by less than 2^24 of
/// 2^32.
struct Divider {
  std::uint32_t inverse;  ///< 0 for 1
  __device__ __forceinline__ explicit Divider(int d)
      : inverse(d == 1 ? 0 : 0xffffffffu / static_cast<unsigned>(d) + 1) {}
  __device__ __forceinline__ int quotient(int x) const {
    return inverse == 0 ? x : static_cast<int>(__umulhi(static_cast<std::uint32_t>(x), inverse));
  }
};

/// use(i, load(i)) for i = first, first + stride, .. below count. kBatch loads are in flight before the first use,
/// which stores would otherwise hold back: the compiler cannot know that they go elsewhere.
template <int kBatch, typename Load, typename Use>
__device__ __forceinline__ void in_batches(int first, int stride, int count, Load&& load, Use&& use) {
  int base = first;
  for (; base + (kBatch - 1) * stride < count; base += kBatch * stride) {
    decltype(load(0)) value[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) value[b] = load(base + b * stride);
#pragma unroll
    for (int b = 0; b < kBatch; ++b) use(base + b * stride, value[b]);
  }
#pragma unroll 1
  for (; base < count; base += stride) use(base, load(base));
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
