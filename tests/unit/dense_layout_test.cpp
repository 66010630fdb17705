#include "kernels/dense_rescan/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <vector>

namespace sdm::dense_rescan {
namespace {

/// A matrix [rows, columns] of 16-bit marks as the copy engine lays it out: boxes of 64 columns, 128-byte swizzle, the
/// XOR taken on the whole address.
struct SharedMatrix {
  std::uint32_t start;
  int rows, columns;
  std::vector<std::uint8_t> memory;

  SharedMatrix(std::uint32_t at, int r, int c)
      : start(at), rows(r), columns(c), memory(at + static_cast<std::size_t>(2 * r * c)) {
    for (int row = 0; row < rows; ++row)
      for (int column = 0; column < columns; ++column) {
        const std::uint32_t plain =
            start + static_cast<std::uint32_t>(column / 64 * rows * 128 + row * 128 + column % 64 * 2);
        put(plain ^ (plain >> 3 & 0x70u), mark(row, column));
      }
  }
  static std::uint16_t mark(int row, int column) { return static_cast<std::uint16_t>(row * 256 + column); }
  void put(std::uint32_t at, std::uint16_t value) { std::memcpy(&memory[at], &value, 2); }
  std::uint16_t get(std::uint32_t at) const {
    std::uint16_t value;
    std::memcpy(&value, &memory[at], 2);
    return value;
  }
};

struct Descriptor {
  std::uint32_t start, leading, stride;
  explicit Descriptor(std::uint64_t bits)
      : start(static_cast<std::uint32_t>(bits & 0x3fff) * 16),
        leading(static_cast<std::uint32_t>(bits >> 16 & 0x3fff) * 16),
        stride(static_cast<std::uint32_t>(bits >> 32 & 0x3fff) * 16) {
    EXPECT_EQ(bits >> 62, 1u) << "128-byte swizzle";
    EXPECT_EQ(bits >> 49 & 7, 0u) << "boxes lie at multiples of 1024";
  }
  std::uint32_t swizzle(std::uint32_t at) const { return at ^ (at >> 3 & 0x70u); }
  std::uint32_t k_major(int i, int k) const {
    return swizzle(start + static_cast<std::uint32_t>(i / 8) * stride +
                   static_cast<std::uint32_t>(i % 8 * 128 + 2 * k));
  }
  std::uint32_t mn_major(int i, int k) const {
    return swizzle(start + static_cast<std::uint32_t>(i / 64) * leading + static_cast<std::uint32_t>(k / 8) * stride +
                   static_cast<std::uint32_t>(k % 8 * 128 + i % 64 * 2));
  }
};

constexpr std::uint32_t kStart = 3 * 1024;

TEST(DenseLayout, BoxesAreWhereTheCopyEngineWritesThem) {
  for (const int rows : {64, 128})
    for (const int columns : {64, 128, 256}) {
      const SharedMatrix m(kStart, rows, columns);
      for (int row = 0; row < rows; ++row)
        for (int chunk = 0; chunk < columns / 8; ++chunk)
          for (int i = 0; i < 8; ++i)
            ASSERT_EQ(m.get(kStart + in_boxes(rows, row, chunk) + 2u * static_cast<std::uint32_t>(i)),
                      SharedMatrix::mark(row, 8 * chunk + i));
    }
}

TEST(DenseLayout, OperandsAlongRowsReadTheirElements) {
  for (const int rows : {64, 128})
    for (const int columns : {64, 128, 256}) {
      const SharedMatrix m(kStart, rows, columns);
      for (const int first : {0, 32, 64})
        for (int step = 0; step < columns / 16 && first < rows; ++step) {
          const Descriptor d(along_rows(kStart, rows, first, step));
          for (int i = 0; i < std::min(128, rows - first); ++i)
            for (int k = 0; k < 16; ++k)
              ASSERT_EQ(m.get(d.k_major(i, k)), SharedMatrix::mark(first + i, 16 * step + k));
        }
    }
}

TEST(DenseLayout, OperandsDownRowsReadTheirElements) {
  for (const int rows : {64, 128})
    for (const int columns : {64, 128, 256}) {
      const SharedMatrix m(kStart, rows, columns);
      for (int box = 0; box < columns / 64; ++box)
        for (int step = 0; step < rows / 16; ++step) {
          const Descriptor d(down_rows(kStart, rows, box, step));
          for (int i = 0; i < std::min(128, columns - 64 * box); ++i)
            for (int k = 0; k < 16; ++k)
              ASSERT_EQ(m.get(d.mn_major(i, k)), SharedMatrix::mark(16 * step + k, 64 * box + i));
        }
    }
}

/// A warpgroup's accumulators (wgmma.cuh: d[4j], d[4j+1] = [16w+g][8j+2q, +1], d[4j+2], d[4j+3] eight rows below)
/// through stmatrix: lane 8i+r gives the address of row r of matrix i, and holds [g][2q], [g][2q+1] of every matrix.
TEST(DenseLayout, StoredAccumulatorsLieAsTheCopyEngineReadsThem) {
  constexpr int kRows = 128, kColumns = 256, kWidth = 128;
  SharedMatrix m(kStart, kRows, kColumns);
  const std::vector<std::uint8_t> expected = m.memory;
  std::fill(m.memory.begin() + kStart, m.memory.end(), std::uint8_t{0});
  for (int group = 0; group < kColumns / kWidth; ++group)
    for (int block = 0; block < kRows / 64; ++block)
      for (int warp = 0; warp < 4; ++warp)
        for (int pair = 0; pair < kWidth / 16; ++pair)
          for (int matrix = 0; matrix < 4; ++matrix)
            for (int lane = 0; lane < 32; ++lane)
              for (int i = 0; i < 2; ++i) {
                const int element = 8 * pair + 2 * matrix + i, g = lane / 4, q = lane % 4;  // of d
                const int row = 64 * block + 16 * warp + g + 8 * (element / 2 % 2);
                const int column = group * kWidth + element / 4 * 8 + 2 * q + i;
                const std::uint32_t address =
                    kStart + block_row(kRows, 64 * block + 16 * warp, group * (kWidth / 8) + 2 * pair, 8 * matrix + g);
                m.put(address + static_cast<std::uint32_t>(2 * (2 * q + i)), SharedMatrix::mark(row, column));
              }
  EXPECT_EQ(m.memory, expected);
}

/// Fields of a tcgen05 instruction descriptor, read back by their bits.
TEST(DenseLayout, InstructionsOfTensorMemoryProductsSayTheirShapes) {
  const auto field = [](std::uint32_t word, int first, int bits) { return word >> first & ((1u << bits) - 1); };
  for (const bool bf16 : {false, true})
    for (const int rows : {64, 128})
      for (const int columns : {64, 128, 256})
        for (const bool down_a : {false, true})
          for (const bool down_b : {false, true}) {
            const std::uint32_t word = product_instruction(bf16, rows, columns, down_a, down_b);
            EXPECT_EQ(field(word, 0, 4), 0u) << "dense, not saturating";
            EXPECT_EQ(field(word, 4, 2), 1u) << "fp32 accumulators";
            EXPECT_EQ(field(word, 7, 3), bf16 ? 1u : 0u);
            EXPECT_EQ(field(word, 10, 3), bf16 ? 1u : 0u);
            EXPECT_EQ(field(word, 13, 2), 0u) << "nothing negated";
            EXPECT_EQ(field(word, 15, 1), down_a ? 1u : 0u);
            EXPECT_EQ(field(word, 16, 1), down_b ? 1u : 0u);
            EXPECT_EQ(field(word, 17, 6) * 8, static_cast<std::uint32_t>(columns));
            EXPECT_EQ(field(word, 24, 5) * 16, static_cast<std::uint32_t>(rows));
            EXPECT_EQ(field(word, 29, 3), 0u);
          }
  const std::uint64_t descriptor = tensor_descriptor(along_rows(kStart, 64, 0, 1));
  EXPECT_EQ(descriptor >> 46 & 7, 1u) << "version";
  EXPECT_EQ(descriptor >> 49 & 0xfff, 0u) << "base offset, mode, reserved";
  EXPECT_EQ(descriptor >> 61, 2u) << "128-byte swizzle";
  EXPECT_EQ((descriptor & 0x3fff) * 16, kStart + 32u);
}

/// A warp's 16-byte accesses to eight rows of one matrix hit every bank once.
TEST(DenseLayout, EightRowsOfAChunkSpreadOverAllBanks) {
  for (int chunk = 0; chunk < 8; ++chunk) {
    std::set<std::uint32_t> quarters;
    for (int row = 0; row < 8; ++row) quarters.insert(swizzled(row, chunk) % 128);
    EXPECT_EQ(quarters.size(), 8u);
  }
}

template <int kK, int kColumns, bool kDq>
void expect_layout() {
  using L = Layout<kK, kColumns, kDq>;
  EXPECT_LE(L::kBytes + 1024, 232448);
  EXPECT_GE(L::kStages, 2);
  for (int stage = 0; stage < L::kStages; ++stage) {
    for (const int at : {L::w(stage), L::kg(stage), L::v(stage)}) EXPECT_EQ(at % 1024, 0);
    EXPECT_EQ(L::v(stage) + L::kValues, stage + 1 < L::kStages ? L::w(stage + 1) : L::gates(0));
    EXPECT_EQ(L::gates(stage) % 16, 0);
  }
  EXPECT_EQ(L::d_out % 1024, 0);
  EXPECT_EQ(L::barrier(0), L::gates(L::kStages));
  EXPECT_LE(L::barrier(2 * L::kStages + 7), L::kBytes);  // those of tcgen05 and the address of its tensor memory
}

TEST(DenseLayout, EveryShapeFitsAndNothingOverlaps) {
  expect_layout<64, 64, false>(), expect_layout<64, 64, true>(), expect_layout<64, 128, false>(),
      expect_layout<64, 128, true>();
  expect_layout<64, 256, false>(), expect_layout<64, 256, true>(), expect_layout<128, 64, false>(),
      expect_layout<128, 64, true>();
  expect_layout<128, 128, false>(), expect_layout<128, 128, true>(), expect_layout<128, 256, false>(),
      expect_layout<128, 256, true>();
}

}  // namespace
}  // namespace sdm::dense_rescan
