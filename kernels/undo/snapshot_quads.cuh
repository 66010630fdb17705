#pragma once
// A lane's four columns of a snapshot row (spec 2.5), as they lie in the walk's ring, decoded and rounded to the bank's
// element. Device twin of host::decode_row. Device code only.
#include "kernels/common/code_quads.cuh"
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

template <typename B, bool kQuick>
struct SnapshotQuad<RowCode::fp8, B, kQuick> {
  using Bits = std::uint32_t;
  static constexpr int kElement = 1;
  static constexpr bool kScaled = true;
  __device__ static device::Quad<B> decode(Bits bits, float scale, float (&out)[4]) {
    device::widen_e4m3<kQuick>(bits, out);
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
    device::widen_int4<kQuick>(bits, out);
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
