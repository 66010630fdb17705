#pragma once
// Stores of one lane's columns of a pre-write row into the snapshot (spec 2.5).
#include "kernels/data.h"
#include "kernels/write/quotient.h"
#include "kernels/write/rows.cuh"

namespace sdm::write {

/// What a kernel saves: one kernel each, since code that a launch of a few microseconds runs but once costs its fetch.
enum class Save : std::uint8_t { none, raw, bf16, fp8, int4 };
constexpr bool is_quantized(Save save) { return save == Save::fp8 || save == Save::int4; }

inline Save save_of(const Snapshot& snapshot) {
  switch (snapshot.format) {
    case SnapshotFormat::none: return Save::none;
    case SnapshotFormat::bf16: return Save::bf16;
    case SnapshotFormat::fp8: return Save::fp8;
    case SnapshotFormat::int4: return Save::int4;
    default: return Save::raw;
  }
}

inline constexpr std::uint32_t kInfinity = 0x7f800000u;

/// Of two pairs of bf16 the larger magnitudes, with any sign; a NaN gives way or, with kFlagNan, wins.
template <bool kFlagNan>
__device__ __forceinline__ std::uint32_t larger_pair(std::uint32_t a, std::uint32_t b) {
  std::uint32_t m;
#if __CUDA_ARCH__ >= 860
  if constexpr (kFlagNan)
    asm("max.NaN.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
  else
    asm("max.xorsign.abs.bf16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
#else
  a &= 0x7fff7fffu, b &= 0x7fff7fffu;
  if constexpr (kFlagNan)
    asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
  else
    asm("max.bf16x2 %0, %1, %2;" : "=r"(m) : "r"(a), "r"(b));
#endif
  return m;
}

/// Bits of the largest magnitude among the lane's columns; non-negative floats compare as their bits. NaNs are ignored
/// (spec 2.5), or with kFlagNan make the result larger than kInfinity.
template <typename T, bool kFlagNan, int kVectors>
__device__ __forceinline__ std::uint32_t lane_amax(const uint4 (&raw)[kVectors]) {
  std::uint32_t amax = 0, pair = 0;
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const uint4& v = raw[k];
    if constexpr (sizeof(T) == 2) {
      const std::uint32_t both =
          larger_pair<kFlagNan>(larger_pair<kFlagNan>(v.x, v.y), larger_pair<kFlagNan>(v.z, v.w));
      pair = k == 0 ? both : larger_pair<kFlagNan>(pair, both);
    } else {
      const std::uint32_t a = v.x & 0x7fffffffu, b = v.y & 0x7fffffffu, c = v.z & 0x7fffffffu, d = v.w & 0x7fffffffu;
      if constexpr (kFlagNan) {
        amax = max(amax, max(max(a, b), max(c, d)));
      } else {  // fmaxf: the other operand where one is NaN
        const float low = fmaxf(__uint_as_float(a), __uint_as_float(b));
        const float high = fmaxf(__uint_as_float(c), __uint_as_float(d));
        amax = __float_as_uint(fmaxf(__uint_as_float(amax), fmaxf(low, high)));
      }
    }
  }
  if constexpr (sizeof(T) == 4) return amax;
  pair &= 0x7fff7fffu;
  if constexpr (!kFlagNan) asm("max.bf16x2 %0, %0, %1;" : "+r"(pair) : "r"(0));  // zero where all are NaN
  return max(pair << 16, pair & 0xffff0000u);
}

/// Row maxima over lane groups of kLanesUsed lanes: x[r] is the lane's maximum of row r; lane l gets its group's
/// maximum of row l % kRows. Each of the first steps halves the rows that a lane keeps. Called by the whole warp.
template <int kLanesUsed, int kRows>
__device__ __forceinline__ std::uint32_t group_maxima(std::uint32_t (&x)[kRows]) {
  const unsigned lane = threadIdx.x & 31;
#pragma unroll
  for (int half = kRows / 2; half >= 1; half /= 2) {
    const bool upper = (lane & static_cast<unsigned>(half)) != 0;
#pragma unroll
    for (int r = 0; r < half; ++r) {
      const std::uint32_t kept = upper ? x[r + half] : x[r], given = upper ? x[r] : x[r + half];
      x[r] = max(kept, __shfl_xor_sync(~0u, given, half));
    }
  }
#pragma unroll
  for (int distance = kRows; distance < kLanesUsed; distance *= 2)
    x[0] = max(x[0], __shfl_xor_sync(~0u, x[0], distance));
  return x[0];
}

template <Save kSave>
inline constexpr float kLimit = kSave == Save::fp8 ? kFp8Limit : kInt4Limit;

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

// `out`: the lane's first byte in the snapshot row; `width`: its columns in the row.

template <typename S>
__device__ __forceinline__ void save_bf16(std::uint8_t* out, int width, const float (&x)[S::kElements]) {
  std::uint32_t word[4];
#pragma unroll
  for (int i = 0; i < S::kElements / 2; ++i) word[i] = device::pack_bf16(x[2 * i], x[2 * i + 1]);
  if constexpr (S::kElements == 8) {
    store_columns<RowShape<bf16_t, S::kLanes, S::kAligned>, true>(reinterpret_cast<bf16_t*>(out), width,
                                                                  {word[0], word[1], word[2], word[3]});
  } else {
    store_bytes<8, S::kAligned>(out, 2 * width, {word[0], word[1]});
  }
}

/// How a quantized row is coded. `quick` is the same for the whole warp.
struct RowCoder {
  float scale = 0.0f;
  Reciprocal reciprocal{};
  bool quick = true;  ///< no NaN in the row and quick_scale(scale): two operations a quotient; else `scale` is used
};

/// The coder of a row whose largest magnitude has the bits `amax`; quick only if all rows of the warp can be.
/// Called by the whole warp.
template <Save kSave>
__device__ __forceinline__ RowCoder make_row_coder(std::uint32_t amax, bool finite) {
  RowCoder coder;
  coder.scale = quick_row_scale(__uint_as_float(amax), kLimit<kSave>);
  coder.reciprocal = make_reciprocal(coder.scale);
  coder.quick = finite && __all_sync(~0u, quick_scale(coder.scale));
  return coder;
}

/// Row maxima need no exchange where a lane group holds whole rows.
struct NoExchange {
  __device__ __forceinline__ std::uint32_t operator()(std::uint32_t amax) { return amax; }
};

/// Coders of the kRows rows of a batch, row(r) being the lane's columns of row r of its lane group (zeros where there
/// is none); lane l gets the coder of row l % kRows. `exchange` widens maxima to whole rows. Called by the whole warp.
template <typename S, Save kSave, int kRows, typename Row, typename Exchange>
__device__ __forceinline__ RowCoder batch_coder(Row&& row, Exchange& exchange) {
  std::uint32_t amax[kRows];
#pragma unroll
  for (int r = 0; r < kRows; ++r) amax[r] = lane_amax<typename S::T, true>({row(r)});
  std::uint32_t largest = exchange(group_maxima<S::kLanes>(amax));
  const bool nan = __any_sync(~0u, largest > kInfinity);
  if (nan) [[unlikely]] {  // the maxima again, without the NaNs
#pragma unroll
    for (int r = 0; r < kRows; ++r) amax[r] = lane_amax<typename S::T, false>({row(r)});
    largest = exchange(group_maxima<S::kLanes>(amax));
  }
  return make_row_coder<kSave>(largest, !nan);
}
/// The coder that lane `lane` of each `width` lanes holds. Called by the whole warp.
__device__ __forceinline__ RowCoder coder_of_lane(const RowCoder& mine, int lane, int width) {
  RowCoder coder{.reciprocal = {__shfl_sync(~0u, mine.reciprocal.high, lane, width),
                                __shfl_sync(~0u, mine.reciprocal.low, lane, width)},
                 .quick = mine.quick};
  if (!mine.quick) [[unlikely]]
    coder.scale = __shfl_sync(~0u, mine.scale, lane, width);
  return coder;
}

/// The quotients of the lane's columns, good for the row's codes.
template <int kCount>
__device__ __forceinline__ void row_quotients(const float (&x)[kCount], const RowCoder& coder, float (&q)[kCount]) {
  if (coder.quick) [[likely]] {
#pragma unroll
    for (int i = 0; i < kCount; ++i) q[i] = quick_quotient(x[i], coder.reciprocal);
  } else {
    const RowScale scale{coder.scale, div_rn(1.0f, coder.scale)};
#pragma unroll
    for (int i = 0; i < kCount; ++i) q[i] = quotient(x[i], scale);
  }
}

template <typename S>
__device__ __forceinline__ void save_fp8(std::uint8_t* out, int width, const float (&q)[S::kElements]) {
  std::uint32_t word[2] = {0, 0};
#pragma unroll
  for (int i = 0; i < S::kElements; i += 2) word[i / 4] |= e4m3_pair(q[i], q[i + 1]) << (8 * (i % 4));
  store_bytes<S::kElements, S::kAligned>(out, width, word);
}

/// An odd D leaves a zero in the last low nibble: x is 0 past the row. A finite q + 1.5*2^23 is 0x4b400000 + rint(q) in
/// bits, so nibbles add up in place; 8 more in each keeps borrows out, and flipping bit 3 of 8 + n gives n's low bits.
template <typename S>
__device__ __forceinline__ void save_int4(std::uint8_t* out, int width, bool finite, const float (&q)[S::kElements]) {
  std::uint32_t word[2] = {0, 0};
  if (finite) [[likely]] {
    constexpr std::uint32_t kOnes = S::kElements == 8 ? 0x11111111u : 0x1111u;
#pragma unroll
    for (int i = 0; i < S::kElements; ++i)
      word[0] += __float_as_uint(q[i] + 12582912.0f) << (4 * (i % 2 == 0 ? i + 1 : i - 1));
    word[0] = (word[0] - 0x4b400000u * kOnes + 8u * kOnes) ^ (8u * kOnes);
  } else {
#pragma unroll
    for (int i = 0; i < S::kElements; ++i) word[0] |= int4_bits(q[i]) << (4 * (i % 2 == 0 ? i + 1 : i - 1));
  }
  store_bytes<S::kElements / 2, S::kAligned>(out, (width + 1) / 2, word);
}

/// Bytes of a snapshot row, or of its first `columns` columns (even for int4).
template <typename S, Save kSave>
__device__ __forceinline__ int saved_bytes(int columns) {
  if constexpr (kSave == Save::int4) return (columns + 1) / 2;
  return columns * (kSave == Save::fp8 ? 1 : (kSave == Save::bf16 ? 2 : static_cast<int>(sizeof(typename S::T))));
}

/// Saves the lane's columns `raw` (`x` as floats); nothing where width is 0. `coder` matters to quantized rows, whose
/// scale the caller stores.
template <typename S, Save kSave>
__device__ __forceinline__ void save_columns(std::uint8_t* out, int width, const uint4& raw,
                                             const float (&x)[S::kElements], const RowCoder& coder) {
  if constexpr (kSave == Save::raw) store_columns<S, true>(reinterpret_cast<typename S::T*>(out), width, raw);
  if constexpr (kSave == Save::bf16) save_bf16<S>(out, width, x);
  if constexpr (is_quantized(kSave)) {
    if (width <= 0) return;
    float q[S::kElements];
    row_quotients(x, coder, q);
    if constexpr (kSave == Save::fp8)
      save_fp8<S>(out, width, q);
    else
      save_int4<S>(out, width, coder.quick, q);
  }
}

}  // namespace sdm::write
