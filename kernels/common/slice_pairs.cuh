#pragma once
// The row walk by pairs of neighbouring slices, for rows of bf16: half a warp a slice, lane l of 16 holding columns 8l
// .. 8l+7. A warp then copies and stores runs of two slices in vectors of 16 bytes, with fewer instructions for each.
// Lanes past the slice (the last of 16 for 120 columns) have cells of zeros. Device code only.
#include "kernels/common/row_walk.cuh"

namespace sdm::device {

/// A lane's eight columns of a pair, as two quads.
using PairColumns = float[2][4];

__device__ __forceinline__ void widen_pair(const uint4& bits, PairColumns& out) {
  widen_quad(uint2{bits.x, bits.y}, out[0]);
  widen_quad(uint2{bits.z, bits.w}, out[1]);
}
__device__ __forceinline__ uint4 narrow_pair(const PairColumns& in) {
  uint2 low, high;
  narrow_quad(in[0], low);
  narrow_quad(in[1], high);
  return {low.x, low.y, high.x, high.y};
}

template <typename Body>
__device__ __forceinline__ void for_columns(Body&& body) {
#pragma unroll
  for (int q = 0; q < 2; ++q)
#pragma unroll
    for (int j = 0; j < 4; ++j) body(q, j);
}

/// Where a lane stands in a pair.
struct PairPlace {
  int half;    ///< the slice of the pair
  int column;  ///< the lane's first, from the begin of the pair; where outside, the cells behind the pair's last column
  int columns;  ///< of the pair
  bool inside;

  __device__ PairPlace(int lane, int width) : half(lane / 16), columns(2 * width), inside(8 * (lane % 16) < width) {
    const int behind = 128 - width;  // the columns that lanes of one slice have past it
    column = inside ? half * width + 8 * (lane % 16) : columns + half * behind + 8 * (lane % 16) - width;
  }
};

/// A lane's columns of the staged token rows. Every second four lanes take their quads the other way round, so that
/// eight lanes read from all banks.
class PairTokens {
 public:
  __device__ PairTokens(const PairPlace& at, int lane, const WalkPlace& place, const WalkMemory& memory,
                        const WalkShape& shape)
      : columns_(reinterpret_cast<const std::uint8_t*>(
            at.inside ? memory.tokens + place.in_group * shape.stride + at.column : memory.zeros)),
        row_bytes_(at.inside ? static_cast<std::uint32_t>(place.group * shape.stride) * 4u : 0u),
        swapped_((lane & 4) != 0),
        first_(at.inside && swapped_ ? 16 : 0),
        second_(at.inside && !swapped_ ? 16 : 0) {}
  __device__ __forceinline__ void load(int token, PairColumns& x) const {
    const std::uint8_t* row = columns_ + static_cast<std::uint32_t>(token) * row_bytes_;
    const uint4 a = *reinterpret_cast<const uint4*>(row + first_);
    const uint4 b = *reinterpret_cast<const uint4*>(row + second_);
    const auto select = [&](const uint4& one, const uint4& other, float(&out)[4]) {
      widen_quad(uint4{swapped_ ? other.x : one.x, swapped_ ? other.y : one.y, swapped_ ? other.z : one.z,
                       swapped_ ? other.w : one.w},
                 out);
    };
    select(a, b, x[0]);
    select(b, a, x[1]);
  }

 private:
  const std::uint8_t* columns_;
  std::uint32_t row_bytes_;
  bool swapped_;
  int first_, second_;  ///< bytes to the quads, in the order in which they are read
};

/// A lane's cells of the ring: per slot the pair's columns of one row and, kSection further, of another, there kSecond
/// bytes a lane; where these are less than 16, a lane's copy of the row's scale follows. A first row begins where its
/// global address lies in a line of 128 bytes: a copy asks for every sector that its lanes share in global, but not in
/// shared memory, twice (H200, undo at wide960: 22.7 sectors for each run of 15, 2,744 us in place of 2,638). For
/// shorter second rows that made no difference.
template <int kSecond = 16>
class PairRing {
 public:
  using Second = std::conditional_t<kSecond == 16, uint4, std::conditional_t<kSecond == 8, uint2, std::uint32_t>>;
  static constexpr int kSection = 16 * kLanes, kSlot = 2 * kSection;
  /// `row`: where the pair begins in row 0, and so in all where rows are multiples of 128 bytes.
  __device__ PairRing(std::uint8_t* ring, const void* row, const PairPlace& at, int lane, int slots) {
    const auto base = static_cast<std::uint32_t>(__cvta_generic_to_shared(ring));
    const auto phase = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(row));
    std::uint8_t* const begin = ring + ((phase - base) & (kPairPhase - 1));
    first_ = begin + 2 * at.column;
    second_ = begin + kSection + kSecond * at.column / 8;
    scale_ = begin + kSlot - 4 * (kLanes - lane);
    if (at.inside) return;
    for (int slot = 0; slot < slots; ++slot) {
      *reinterpret_cast<uint4*>(first_cell(slot)) = {};
      *reinterpret_cast<Second*>(second_cell(slot)) = {};
      if constexpr (kSecond < 16) *reinterpret_cast<float*>(scale_cell(slot)) = 0.0f;
    }
  }
  __device__ std::uint8_t* first_cell(int slot) const { return first_ + slot * kSlot; }
  __device__ std::uint8_t* second_cell(int slot) const {
    return (kSecond == 16 ? first_ + kSection : second_) + slot * kSlot;
  }
  __device__ std::uint8_t* scale_cell(int slot) const { return scale_ + slot * kSlot; }
  __device__ uint4 first(int slot) const { return *reinterpret_cast<const uint4*>(first_cell(slot)); }
  __device__ Second second(int slot) const { return *reinterpret_cast<const Second*>(second_cell(slot)); }
  __device__ float scale(int slot) const { return *reinterpret_cast<const float*>(scale_cell(slot)); }

 private:
  std::uint8_t *first_, *second_, *scale_;
};

/// The sum of a lane's products in the order of its slice's lane tree, near_first: the tree's first pair is its quads.
__device__ __forceinline__ float pair_dot(const PairColumns& x, const PairColumns& y) {
  return quad_dot(x[0], y[0]) + quad_dot(x[1], y[1]);
}

}  // namespace sdm::device
