#pragma once
// Stores of one lane's columns of a pre-write row into the snapshot (spec 2.5).
#include "kernels/data.h"
#include "kernels/write/quotient.h"
#include "kernels/write/rows.cuh"

namespace sdm::write {

/// What a kernel saves; `quantized` holds fp8 and int4, told apart at run time.
enum class Save : std::uint8_t { none, raw, bf16, quantized };

inline Save save_of(const Snapshot& snapshot) {
  switch (snapshot.format) {
    case SnapshotFormat::none: return Save::none;
    case SnapshotFormat::bf16: return Save::bf16;
    case SnapshotFormat::fp8:
    case SnapshotFormat::int4: return Save::quantized;
    default: return Save::raw;
  }
}

/// Bits of the largest magnitude among the lane's columns, NaNs ignored; non-negative floats compare as their bits.
template <typename T>
__device__ __forceinline__ std::uint32_t lane_amax(const uint4& raw) {
  constexpr std::uint32_t kMagnitude = sizeof(T) == 2 ? 0x7fff7fffu : 0x7fffffffu;
  const std::uint32_t a = raw.x & kMagnitude, b = raw.y & kMagnitude, c = raw.z & kMagnitude, d = raw.w & kMagnitude;
  if constexpr (sizeof(T) == 4) {  // fmaxf returns the other operand where one is NaN
    const float low = fmaxf(__uint_as_float(a), __uint_as_float(b));
    return __float_as_uint(fmaxf(0.0f, fmaxf(low, fmaxf(__uint_as_float(c), __uint_as_float(d)))));
  }
  std::uint32_t m = 0;
  asm("{ .reg .b32 t, u; max.bf16x2 t, %1, %2; max.bf16x2 u, %3, %4; max.bf16x2 t, t, u; max.bf16x2 %0, t, %5; }"
      : "=r"(m)
      : "r"(a), "r"(b), "r"(c), "r"(d), "r"(0));
  return max(m << 16, m & 0xffff0000u);
}

inline constexpr int kRowsOfMaxima = 8;

/// Row maxima over lane groups of kLanesUsed lanes: x[r] is the lane's maximum of row r; lane l gets its group's
/// maximum of row l % 8. Each of the first three steps halves the rows that a lane keeps. Called by the whole warp.
template <int kLanesUsed>
__device__ __forceinline__ std::uint32_t group_maxima(std::uint32_t (&x)[kRowsOfMaxima]) {
  const unsigned lane = threadIdx.x & 31;
#pragma unroll
  for (int half = kRowsOfMaxima / 2; half >= 1; half /= 2) {
    const bool upper = (lane & static_cast<unsigned>(half)) != 0;
#pragma unroll
    for (int r = 0; r < half; ++r) {
      const std::uint32_t kept = upper ? x[r + half] : x[r], given = upper ? x[r] : x[r + half];
      x[r] = max(kept, __shfl_xor_sync(~0u, given, half));
    }
  }
#pragma unroll
  for (int distance = kRowsOfMaxima; distance < kLanesUsed; distance *= 2)
    x[0] = max(x[0], __shfl_xor_sync(~0u, x[0], distance));
  return x[0];
}

__device__ __forceinline__ float limit_of(SnapshotFormat format) {
  return format == SnapshotFormat::fp8 ? kFp8Limit : kInt4Limit;
}

/// Two codes, `low` in the low byte.
__device__ __forceinline__ std::uint32_t e4m3_pair(float low, float high) {
#if __CUDA_ARCH__ >= 890
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
  return pair;
#else
  return to_e4m3(low) | static_cast<std::uint32_t>(to_e4m3(high)) << 8;
#endif
}

/// Stores the low kBytes (2, 4 or 8) of `word`; `whole`: all of them, else byte by byte up to `bytes`.
template <int kBytes, bool kWhole>
__device__ __forceinline__ void store_bytes(std::uint8_t* out, int bytes, const std::uint32_t (&word)[2]) {
  if constexpr (kWhole) {
    if (bytes <= 0) return;
    if constexpr (kBytes == 8) __stcs(reinterpret_cast<uint2*>(out), uint2{word[0], word[1]});
    if constexpr (kBytes == 4) __stcs(reinterpret_cast<unsigned*>(out), word[0]);
    if constexpr (kBytes == 2) __stcs(reinterpret_cast<unsigned short*>(out), static_cast<unsigned short>(word[0]));
  } else {
#pragma unroll
    for (int i = 0; i < kBytes; ++i)
      if (i < bytes) out[i] = static_cast<std::uint8_t>(word[i / 4] >> (8 * (i % 4)));
  }
}

/// `snapshot_row`: the row's first byte; `column`: the lane's first column; `width`: its columns in the row.
template <typename S>
__device__ __forceinline__ void save_bf16(std::uint8_t* snapshot_row, int column, int width,
                                          const float (&x)[S::kElements]) {
  std::uint32_t word[4];
#pragma unroll
  for (int i = 0; i < S::kElements / 2; ++i) word[i] = device::pack_bf16(x[2 * i], x[2 * i + 1]);
  std::uint8_t* out = snapshot_row + 2 * std::int64_t{column};
  if constexpr (S::kElements == 8) {
    store_columns<RowShape<bf16_t, S::kLanes, S::kAligned>, true>(reinterpret_cast<bf16_t*>(out), width,
                                                                  {word[0], word[1], word[2], word[3]});
  } else {
    store_bytes<8, S::kAligned>(out, 2 * width, {word[0], word[1]});
  }
}

template <typename S>
__device__ __forceinline__ void save_fp8(std::uint8_t* snapshot_row, int column, int width, RowScale scale,
                                         const float (&x)[S::kElements]) {
  std::uint32_t word[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < S::kElements; i += 2)
    word[i / 4] |= e4m3_pair(quotient(x[i], scale), quotient(x[i + 1], scale)) << (8 * (i % 4));
  store_bytes<S::kElements, S::kAligned>(snapshot_row + column, width, word);
}

template <typename S>
__device__ __forceinline__ void save_int4(std::uint8_t* snapshot_row, int column, int width, RowScale scale,
                                          const float (&x)[S::kElements]) {
  std::uint32_t word[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < S::kElements; ++i)  // an odd D leaves a zero in the last low nibble: x is 0 past the row
    word[0] |= int4_bits(quotient(x[i], scale)) << (4 * (i % 2 == 0 ? i + 1 : i - 1));
  store_bytes<S::kElements / 2, S::kAligned>(snapshot_row + column / 2, (width + 1) / 2, word);
}

/// Saves the lane's columns `raw` (`x` as floats) of snapshot row `row`; nothing where width is 0. `scale` matters to
/// quantized rows; `owns_scale`: this lane stores the row's scale.
template <typename S, Save kSave>
__device__ __forceinline__ void save_columns(const Snapshot& snapshot, int head_dim, std::int64_t row, int column,
                                             int width, const uint4& raw, const float (&x)[S::kElements],
                                             RowScale scale, bool owns_scale) {
  auto* rows = static_cast<std::uint8_t*>(snapshot.rows);
  if constexpr (kSave == Save::raw)
    store_columns<S, true>(static_cast<typename S::T*>(snapshot.rows) + row * head_dim + column, width, raw);
  if constexpr (kSave == Save::bf16) save_bf16<S>(rows + 2 * row * head_dim, column, width, x);
  if constexpr (kSave == Save::quantized) {
    if (width <= 0) return;
    if (owns_scale) snapshot.scale[row] = scale.scale;
    if (snapshot.format == SnapshotFormat::fp8)
      save_fp8<S>(rows + row * head_dim, column, width, scale, x);
    else
      save_int4<S>(rows + row * ((head_dim + 1) / 2), column, width, scale, x);
  }
}

}  // namespace sdm::write
