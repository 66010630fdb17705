#pragma once
// One lane's columns of a row: a 16-byte vector of the bank (8 bf16 or 4 f32), the same columns of a token row, and
// their loads and stores. Rows whose bytes are no multiple of 16 go element by element.
#include <bit>

#include "kernels/common/row_stage.cuh"
#include "kernels/common/rows.cuh"

namespace sdm::write {

/// A lane group of `kLanes_` lanes holds kColumns adjacent columns of a row, one vector a lane.
template <typename T_, int kLanes_, bool kAligned_>
struct RowShape {
  using T = T_;
  static constexpr int kLanes = kLanes_;
  static constexpr bool kAligned = kAligned_;
  static constexpr int kElements = device::kVec<T>;
  static constexpr int kColumns = kLanes * kElements;
};

/// `width`: how many of the lane's columns the row has (all or none where rows are aligned). `row`: at the lane's
/// column.
template <typename S>
__device__ __forceinline__ uint4 load_columns(const typename S::T* row, int width) {
  if constexpr (S::kAligned) return width > 0 ? device::load_row(row) : uint4{0, 0, 0, 0};
  std::uint32_t word[4] = {0, 0, 0, 0};
#pragma unroll
  for (int i = 0; i < S::kElements; ++i) {
    if (i >= width) continue;
    if constexpr (sizeof(typename S::T) == 2)
      word[i / 2] |= static_cast<std::uint32_t>(__ldcg(reinterpret_cast<const unsigned short*>(row) + i))
                     << (16 * (i % 2));
    else
      word[i] = __ldcg(reinterpret_cast<const unsigned*>(row) + i);
  }
  return {word[0], word[1], word[2], word[3]};
}

/// kStream: not read again soon, so it should leave the L2 first.
template <typename S, bool kStream = false>
__device__ __forceinline__ void store_columns(typename S::T* row, int width, const uint4& value) {
  if constexpr (S::kAligned) {
    if (width > 0) {
      if constexpr (kStream)
        __stcs(reinterpret_cast<uint4*>(row), value);
      else
        device::store_vec(row, value);
    }
    return;
  }
  const std::uint32_t word[4] = {value.x, value.y, value.z, value.w};
#pragma unroll
  for (int i = 0; i < S::kElements; ++i) {
    if (i >= width) continue;
    if constexpr (sizeof(typename S::T) == 2)
      reinterpret_cast<unsigned short*>(row)[i] = static_cast<unsigned short>(word[i / 2] >> (16 * (i % 2)));
    else
      reinterpret_cast<unsigned*>(row)[i] = word[i];
  }
}

/// New rows of the bank leave the L2 first where they have 512 bytes: H200, flagship raw 5730 us to 5575, f32_128 none
/// 593 to 569; default raw, rows of 256 bytes, 416 to 426.
__device__ __forceinline__ bool leaves_first(std::uint32_t row_bytes) { return row_bytes >= 512; }

// --- token rows in shared memory -------------------------------------------------------------------------------------
// [token][kColumns] floats as they are in global memory, then 16 bytes for the barrier of their stage.

template <typename S>
__device__ __forceinline__ int token_floats(int chunk) {
  return chunk * S::kColumns + 4;
}
template <typename S>
__device__ __forceinline__ std::uint64_t* token_barrier(float* tokens, int chunk) {
  return reinterpret_cast<std::uint64_t*>(tokens + chunk * S::kColumns);
}

/// The first `tokens` rows of [C, head_dim], from `column` on.
template <typename S>
__device__ __forceinline__ device::RowBlock token_block(float* shared, const float* rows, int tokens, int head_dim,
                                                        int column) {
  return {shared, rows + column, tokens, min(S::kColumns, head_dim - column), head_dim, S::kColumns};
}

/// The lane's columns of the token row of a record. `lane_rows`: token 0 in shared memory, at the lane's first column.
/// (8 columns a lane: 8 lanes read 16 bytes 32 apart, so two share a bank. Halves of rows side by side would not, but
/// the copy engine brings rows as they are, and that gains more.)
template <typename S>
__device__ __forceinline__ void load_token(const float* lane_rows, std::uint32_t payload, float (&out)[S::kElements]) {
  constexpr int kShift =
      std::countr_zero(static_cast<unsigned>(S::kColumns * 4));  // a row's bytes; tokens from bit 9 on
  const std::uint32_t bytes = kShift >= 9 ? (payload & 0x1fe00u) << (kShift - 9) : (payload & 0x1fe00u) >> (9 - kShift);
  const auto* row = reinterpret_cast<const float*>(reinterpret_cast<const char*>(lane_rows) + bytes);
#pragma unroll
  for (int half = 0; half < S::kElements / 4; ++half) {
    const float4 t = *reinterpret_cast<const float4*>(row + 4 * half);
    out[4 * half] = t.x, out[4 * half + 1] = t.y, out[4 * half + 2] = t.z, out[4 * half + 3] = t.w;
  }
}

/// Row `row` (not negative) of rows `row_bytes` apart: one 32 x 32 -> 64 bit multiply-add.
template <typename T>
__device__ __forceinline__ T* row_at(T* base, std::int32_t row, std::uint32_t row_bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(base) +
                              std::uint64_t{static_cast<std::uint32_t>(row)} * row_bytes);
}

}  // namespace sdm::write
