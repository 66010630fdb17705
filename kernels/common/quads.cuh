#pragma once
// Quads: four neighbouring columns of a row, one lane's share of a column slice (spec 2.6, lane dots). Device code
// only.
#include <cstdint>

#include "kernels/common/rows.cuh"
#include "numerics/order.h"

namespace sdm::device {

template <typename T>
struct QuadOf;
template <>
struct QuadOf<float> {
  using type = uint4;
};
template <>
struct QuadOf<bf16_t> {
  using type = uint2;
};
/// The stored bits of four elements.
template <typename T>
using Quad = typename QuadOf<T>::type;

__device__ __forceinline__ void widen_quad(const uint4& bits, float (&out)[4]) {
  out[0] = __uint_as_float(bits.x), out[1] = __uint_as_float(bits.y);
  out[2] = __uint_as_float(bits.z), out[3] = __uint_as_float(bits.w);
}
__device__ __forceinline__ void widen_quad(const uint2& bits, float (&out)[4]) {
  out[0] = __uint_as_float(bits.x << 16), out[1] = __uint_as_float(bits.x & 0xffff0000u);
  out[2] = __uint_as_float(bits.y << 16), out[3] = __uint_as_float(bits.y & 0xffff0000u);
}
__device__ __forceinline__ void narrow_quad(const float (&in)[4], uint4& bits) {
  bits = {__float_as_uint(in[0]), __float_as_uint(in[1]), __float_as_uint(in[2]), __float_as_uint(in[3])};
}
__device__ __forceinline__ void narrow_quad(const float (&in)[4], uint2& bits) {
  bits = {pack_bf16(in[0], in[1]), pack_bf16(in[2], in[3])};
}

/// A lane's partial of a dot: x0*y0, then fused in ascending column.
__device__ __forceinline__ float quad_dot(const float (&x)[4], const float (&y)[4]) {
  return fma_rn(x[3], y[3], fma_rn(x[2], y[2], fma_rn(x[1], y[1], x[0] * y[0])));
}

/// This lane's columns of a slice: [4*lane, 4*lane + columns) from the slice's begin, columns 0 .. 4.
__device__ __forceinline__ int quad_columns(const ColumnSlice& slice, int lane) {
  const int left = slice.width() - 4 * lane;
  return left < 0 ? 0 : (left < 4 ? left : 4);
}

/// Stores a quad at `at`: whole (kVector; `columns` is 4 or 0) or element by element. kGlobal: a store_global().
template <bool kVector, bool kGlobal = false>
__device__ __forceinline__ void store_quad(bf16_t* at, const uint2& bits, int columns) {
  if constexpr (kVector) {
    if constexpr (kGlobal) {
      if (columns > 0) store_global(at, bits);
    } else {
      if (columns > 0) *reinterpret_cast<uint2*>(at) = bits;
    }
  } else {
    if (columns > 0) at[0].bits = static_cast<std::uint16_t>(bits.x);
    if (columns > 1) at[1].bits = static_cast<std::uint16_t>(bits.x >> 16);
    if (columns > 2) at[2].bits = static_cast<std::uint16_t>(bits.y);
    if (columns > 3) at[3].bits = static_cast<std::uint16_t>(bits.y >> 16);
  }
}
template <bool kVector, bool kGlobal = false>
__device__ __forceinline__ void store_quad(float* at, const uint4& bits, int columns) {
  if constexpr (kVector) {
    if constexpr (kGlobal) {
      if (columns > 0) store_global(at, bits);
    } else {
      if (columns > 0) *reinterpret_cast<uint4*>(at) = bits;
    }
  } else {
    if (columns > 0) at[0] = __uint_as_float(bits.x);
    if (columns > 1) at[1] = __uint_as_float(bits.y);
    if (columns > 2) at[2] = __uint_as_float(bits.z);
    if (columns > 3) at[3] = __uint_as_float(bits.w);
  }
}

// --- several lane trees at once --------------------------------------------------------------------------------------

enum class Tree { near_first, far_first };  ///< distances 1, 2, 4, 8, 16 or 16, 8, 4, 2, 1 (numerics/order.h)

/// The sums over the warp's lanes of kCount (2, 4 or 8) values, each with the pairs of its tree: as long as a lane
/// holds several values, a step gives half of them to the partner lane and takes the partner's share of the other half,
/// so that 8 trees cost 9 shuffles, not 40. Addition commutes, so the bits are those of the plain tree. A lane gets the
/// sum of value summed_value<kCount, kTree>(lane). Overwrites `value`.
/// kSteps: trees over 2^kSteps lanes. kKept: a lane keeps the sums of so many neighbouring values, value[0 ..].
template <int kCount, Tree kTree, int kSteps = 5, int kKept = 1>
__device__ __forceinline__ float transposed_sum(float (&value)[kCount], int lane) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    const int distance = kTree == Tree::near_first ? 1 << step : (1 << (kSteps - 1)) >> step;
    const int half = kCount >> (step + 1);
    if (half >= kKept) {
      const bool upper = (lane & distance) != 0;
#pragma unroll
      for (int j = 0; j < half; ++j) {
        const float give = upper ? value[j] : value[j + half];
        const float keep = upper ? value[j + half] : value[j];
        value[j] = keep + __shfl_xor_sync(0xffffffffu, give, distance);
      }
    } else {
#pragma unroll
      for (int j = 0; j < kKept; ++j) value[j] += __shfl_xor_sync(0xffffffffu, value[j], distance);
    }
  }
  return value[0];
}

/// With kKept, the first of those that the lane keeps.
template <int kCount, Tree kTree, int kSteps = 5, int kKept = 1>
__device__ __forceinline__ int summed_value(int lane) {
  int index = 0;
#pragma unroll
  for (int step = 0; step < kSteps && (kCount >> (step + 1)) >= kKept; ++step) {
    const int distance = kTree == Tree::near_first ? 1 << step : (1 << (kSteps - 1)) >> step;
    if ((lane & distance) != 0) index += kCount >> (step + 1);
  }
  return index;
}

}  // namespace sdm::device
