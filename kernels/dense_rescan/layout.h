#pragma once
// Shared-memory layout of the wgmma and tcgen05 variants, as arithmetic that host tests can follow.
//
// A matrix lies as boxes of 64 columns (128 bytes a row) as TMA writes them with the 128-byte swizzle: row r, 16-byte
// chunk c of a box is at byte 128*r + 16*(c ^ (r % 8)). Boxes are aligned to 1024 bytes.
//
// A matrix descriptor (PTX ISA, "asynchronous warpgroup level matrix shared memory layout") holds, in units of 16
// bytes: the start address (bits 0-13), the leading byte offset (16-29), the stride byte offset (32-45), and 1 for the
// 128-byte swizzle (62-63). The unit adds up plain offsets and then XORs address bits 4-6 with bits 7-9:
//   K-major (the sum runs along a row):   element (i, k): (i/8)*stride + (i%8)*128 + 2k, k < 64
//   MN-major (the sum runs down the rows): element (i, k): (i/64)*leading + (k/8)*stride + (k%8)*128 + 2*(i%64)
#include <cstdint>

#include "numerics/fp.h"

namespace sdm::dense_rescan {

inline constexpr int kBoxColumns = 64, kBoxRowBytes = 128, kGroupBytes = 8 * kBoxRowBytes;

/// Byte of column 8*chunk of row `row` inside a box.
SDM_HD std::uint32_t swizzled(int row, int chunk) {
  return static_cast<std::uint32_t>(kBoxRowBytes * row + 16 * (chunk ^ (row & 7)));
}

/// Byte of (row, 8*chunk8) in a matrix of boxes of `rows` rows.
SDM_HD std::uint32_t in_boxes(int rows, int row, int chunk8) {
  return static_cast<std::uint32_t>(chunk8 / 8 * rows * kBoxRowBytes) + swizzled(row, chunk8 % 8);
}

/// Byte of the row address that a lane gives for the four 8 x 8 matrices of a 16 x 16 block (ldmatrix, stmatrix):
/// matrices 0 and 1 are rows 0-7 and 8-15 of the first eight columns, 2 and 3 of the next eight.
SDM_HD std::uint32_t block_row(int rows, int first_row, int first_chunk8, int lane) {
  return in_boxes(rows, first_row + lane % 8 + lane / 8 % 2 * 8, first_chunk8 + lane / 16);
}

SDM_HD std::uint64_t matrix_descriptor(std::uint32_t address, std::uint32_t leading_bytes, std::uint32_t stride_bytes) {
  return static_cast<std::uint64_t>((address & 0x3ffffu) >> 4) | static_cast<std::uint64_t>(leading_bytes >> 4) << 16 |
         static_cast<std::uint64_t>(stride_bytes >> 4) << 32 | std::uint64_t{1} << 62;
}

/// The same operand for tcgen05, whose descriptors bear version 1 in bits 46-48 and the swizzle in bits 61-63 (2: 128
/// bytes, the same bit).
SDM_HD std::uint64_t tensor_descriptor(std::uint64_t descriptor) { return descriptor | std::uint64_t{1} << 46; }

/// What a tcgen05 product of `rows` x `columns` is told (PTX ISA, tcgen05, "instruction descriptor" of kind f16): fp32
/// accumulators (bit 4), bf16 operands (7, 10; else f16), operands whose sum runs down the rows (15, 16), columns/8
/// (17-22), rows/16 (24-28).
SDM_HD constexpr std::uint32_t product_instruction(bool bf16, int rows, int columns, bool down_a, bool down_b) {
  const std::uint32_t type = bf16 ? 1 : 0;
  return 1u << 4 | type << 7 | type << 10 | static_cast<std::uint32_t>(down_a) << 15 |
         static_cast<std::uint32_t>(down_b) << 16 | static_cast<std::uint32_t>(columns / 8) << 17 |
         static_cast<std::uint32_t>(rows / 16) << 24;
}

/// Operand of 16 sum steps [16*step, 16*step + 16), K-major: rows are the outer extent, from row `first` (a multiple of
/// 8) of boxes of `rows` rows; the sum runs over columns.
SDM_HD std::uint64_t along_rows(std::uint32_t matrix, int rows, int first, int step) {
  const int columns = 16 * step;
  return matrix_descriptor(matrix + static_cast<std::uint32_t>(columns / kBoxColumns * rows * kBoxRowBytes +
                                                               first * kBoxRowBytes + columns % kBoxColumns * 2),
                           16, kGroupBytes);
}

/// The same, MN-major: columns from box `first_box` on are the outer extent; the sum runs over rows.
SDM_HD std::uint64_t down_rows(std::uint32_t matrix, int rows, int first_box, int step) {
  return matrix_descriptor(
      matrix + static_cast<std::uint32_t>(first_box * rows * kBoxRowBytes + 16 * step * kBoxRowBytes),
      static_cast<std::uint32_t>(rows * kBoxRowBytes), kGroupBytes);
}

/// Everything of one CTA's shared memory, in bytes from a 1024-aligned start. kColumns: columns of V that it owns.
template <int kK, int kColumns, bool kDq>
struct Layout {
  static constexpr int kMost = 232448 - 1024;  ///< what a block of sm_90 may have, less what aligning costs
  static constexpr int kBoxBytes = 64 * kBoxRowBytes;
  static constexpr int kState = 2 * kK * kColumns, kKeys = 2 * 64 * kK, kValues = 2 * 64 * kColumns;
  static constexpr int kStage = 2 * kKeys + kValues, kGates = 4 * kK;
  static constexpr int kOther = kState + (kDq ? kValues : 0) + 256;  ///< 256: barriers
  static constexpr int kFit = (kMost - kOther) / (kStage + kGates);
  static constexpr int kStages = kFit < 4 ? kFit : 4;
  static_assert(kStages >= 2);
  static constexpr int d_out = kState;
  static constexpr int w(int stage) { return kState + (kDq ? kValues : 0) + stage * kStage; }
  static constexpr int kg(int stage) { return w(stage) + kKeys; }
  static constexpr int v(int stage) { return kg(stage) + kKeys; }
  static constexpr int gates(int stage) { return w(kStages) + stage * kGates; }
  static constexpr int barrier(int i) { return gates(kStages) + 8 * i; }
  static constexpr int kBytes = kOther + kStages * (kStage + kGates);
};

}  // namespace sdm::dense_rescan
