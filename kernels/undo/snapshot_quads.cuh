#pragma once
// A lane's four columns of a snapshot row (spec 2.5), as they lie in the walk's ring, decoded and rounded to the bank's
// element. Device twin of host::decode_row. Device code only.
#include "kernels/common/row_walk.cuh"

namespace sdm::undo {

/// How a row is stored: `raw` are the bank's own bits; the last two carry one scale per row.
enum class RowCode { raw, bf16, fp8, int4 };

/// Bits: the ring cell. kElement: bytes that a tail copies at a time. decode() gives the values and the bank's bits.
/// kQuick: by what takes few instructions.
template <RowCode kCode, typename B, bool kQuick = true>
struct SnapshotQuad;

template <typename B, bool kQuick>
struct SnapshotQuad<RowCode::raw, B, kQuick> {
  using Bits = device::Quad<B>;
  static constexpr int kElement = sizeof(B);
  static constexpr bool kScaled = false;
  __device__ static device::Quad<B> decode(const Bits& bits, float, float (&out)[4]) {
    device::widen_quad(bits, out);
    return bits;
  }
};

template <typename B, bool kQuick>
struct SnapshotQuad<RowCode::bf16, B, kQuick> {
  using Bits = device::Quad<bf16_t>;
  static constexpr int kElement = 2;
  static constexpr bool kScaled = false;
  __device__ static device::Quad<B> decode(const Bits& bits, float, float (&out)[4]) {
    device::widen_quad(bits, out);
#pragma unroll
    for (float& x : out) x = x == x ? x : float_of(0x7fffffffu);  // widening alone keeps a bf16 NaN's payload
    device::Quad<B> bank;
    device::narrow_quad(out, bank);
    return bank;
  }
};

/// Rounds the dequantized values to the bank's element and hands back its bits.
template <typename B>
__device__ __forceinline__ device::Quad<B> round_quad(float (&x)[4]) {
  device::Quad<B> bank;
  device::narrow_quad(x, bank);
  device::widen_quad(bank, x);
  return bank;
}

/// The values of four codes; of an e4m3 NaN any NaN, as the product with the scale makes it the one.
template <bool kQuick>
__device__ __forceinline__ void widen_e4m3(std::uint32_t codes, float (&out)[4]) {
#if __CUDA_ARCH__ >= 890
  constexpr bool kInstruction = kQuick;
#else
  constexpr bool kInstruction = false;
#endif
  if constexpr (kInstruction) {
#pragma unroll
    for (int i = 0; i < 4; i += 2)
      asm("{\n .reg .b32 pair;\n .reg .b16 low, high;\n cvt.rn.f16x2.e4m3x2 pair, %2;\n mov.b32 {low, high}, pair;\n"
          " cvt.f32.f16 %0, low;\n cvt.f32.f16 %1, high;\n}"
          : "=f"(out[i]), "=f"(out[i + 1])
          : "h"(static_cast<std::uint16_t>(codes >> (8 * i))));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = from_e4m3(static_cast<std::uint8_t>(codes >> (8 * i)));
  }
}
template <bool kQuick>
__device__ __forceinline__ void widen_int4(std::uint32_t codes, float (&out)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kQuick) {  // 2^23 + 8 + code, less 2^23 + 8
      const std::uint32_t nibble = codes >> (8 * (i / 2) + 4 * (1 - i % 2));
      out[i] = __uint_as_float((nibble & 0xfu) ^ 0x4b000008u) - 8388616.0f;
    } else {
      const auto byte = static_cast<std::uint8_t>(codes >> (8 * (i / 2)));
      out[i] = static_cast<float>(i % 2 == 0 ? int4_even(byte) : int4_odd(byte));
    }
  }
}

template <typename B, bool kQuick>
struct SnapshotQuad<RowCode::fp8, B, kQuick> {
  using Bits = std::uint32_t;
  static constexpr int kElement = 1;
  static constexpr bool kScaled = true;
  __device__ static device::Quad<B> decode(Bits bits, float scale, float (&out)[4]) {
    widen_e4m3<kQuick>(bits, out);
#pragma unroll
    for (float& x : out) x *= scale;
    return round_quad<B>(out);
  }
};

template <typename B, bool kQuick>
struct SnapshotQuad<RowCode::int4, B, kQuick> {
  using Bits = std::uint32_t;  ///< the low half holds the four columns
  static constexpr int kElement = 1;
  static constexpr bool kScaled = true;
  __device__ static device::Quad<B> decode(Bits bits, float scale, float (&out)[4]) {
    widen_int4<kQuick>(bits, out);
#pragma unroll
    for (float& x : out) x *= scale;
    return round_quad<B>(out);
  }
};

/// Ring bytes per position and lane: the gradient's quad, the snapshot's, and the row's scale.
template <typename G, RowCode kCode, typename B>
inline constexpr int kUndoSlotBytes = static_cast<int>(sizeof(device::Quad<G>) +
                                                       sizeof(typename SnapshotQuad<kCode, B>::Bits)) +
                                      (SnapshotQuad<kCode, B>::kScaled ? 4 : 0);

}  // namespace sdm::undo
