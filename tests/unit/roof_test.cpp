#include "measure/roof.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "base/error.h"
#include "base/parallel.h"
#include "kernels/roof/roof.h"

namespace sdm {
namespace {

TEST(Roof, RandomRowsAreDistinctInRangeAndRepeat) {
  for (const auto& [rows, touched] : {std::pair{1, 1}, {7, 7}, {100, 33}, {5000, 1024}}) {
    const auto order = random_rows(rows, touched, 5);
    const std::set<std::int32_t> distinct(order.begin(), order.end());
    EXPECT_EQ(distinct.size(), static_cast<std::size_t>(touched));
    EXPECT_GE(*distinct.begin(), 0);
    EXPECT_LT(*distinct.rbegin(), rows);
    EXPECT_EQ(order, random_rows(rows, touched, 5));
  }
  const auto order = random_rows(5000, 1024, 5);
  EXPECT_FALSE(std::ranges::is_sorted(order));
  EXPECT_NE(order, random_rows(5000, 1024, 6));
}

TEST(Roof, WordsAreTheWidestThatDivideARow) {
  EXPECT_EQ(roof::word_bytes(256), 16);
  EXPECT_EQ(roof::word_bytes(40), 8);
  EXPECT_EQ(roof::word_bytes(524), 4);
  EXPECT_EQ(roof::word_bytes(62), 2);
}

TEST(Roof, AHostPassTouchesTheGivenRowsOnceAndSeesEveryWord) {
  Parallel threads(2);
  for (const std::int64_t row_bytes : {2, 4, 40, 62, 240, 1920}) {
    constexpr std::int64_t kRows = 3001, kTouched = 1500;
    std::vector<std::uint8_t> before(static_cast<std::size_t>(kRows * row_bytes));
    for (std::size_t i = 0; i < before.size(); ++i) before[i] = static_cast<std::uint8_t>(i * 2654435761u >> 13);
    std::vector<std::uint8_t> after = before;
    const auto order = random_rows(kRows, kTouched, 9);
    std::vector<std::uint32_t> seen(roof::kSeenWords);
    roof::RowPass pass{
        .rows = after.data(), .order = order.data(), .touched = kTouched, .row_bytes = row_bytes, .seen = seen.data()};

    // Every byte of the touched rows, xored by its place in a word: what the words' xor consists of.
    const std::size_t width = row_bytes % 4 == 0 ? 4 : 2;
    std::uint8_t expected[4] = {};
    for (const std::int32_t row : order)
      for (std::int64_t b = 0; b < row_bytes; ++b)
        expected[static_cast<std::size_t>(b) % width] ^= before[static_cast<std::size_t>(row * row_bytes + b)];
    roof::replay(pass, threads);
    EXPECT_EQ(after, before) << "a read pass wrote, row_bytes " << row_bytes;
    std::uint32_t total = 0;
    for (const std::uint32_t word : seen) total ^= word;
    EXPECT_EQ(std::memcmp(&total, expected, 4), 0) << "row_bytes " << row_bytes;

    pass.write_back = true;
    roof::replay(pass, threads);
    for (const std::int32_t row : order)
      for (std::int64_t b = 0; b < row_bytes; ++b) before[static_cast<std::size_t>(row * row_bytes + b)] ^= 0x5A;
    EXPECT_EQ(after, before) << "row_bytes " << row_bytes;
  }
}

TEST(Roof, TheHostHasEveryPointInOrder) {
  const auto host = make_host_backend();
  const auto points = measure_roof(*host, {256, 62}, 0.01, std::uint64_t{8} << 20);
  ASSERT_EQ(points.size(), 5u);
  const char* kinds[] = {"copy", "row_read", "row_read_write", "row_read", "row_read_write"};
  const std::int64_t sizes[] = {0, 256, 256, 62, 62};
  for (std::size_t i = 0; i < points.size(); ++i) {
    EXPECT_EQ(points[i].kind, kinds[i]);
    EXPECT_EQ(points[i].row_bytes, sizes[i]);
    EXPECT_GT(points[i].bytes_per_second, 1e6);
    EXPECT_LT(points[i].bytes_per_second, 1e14);
  }
}

TEST(Roof, RefusesRowSizesAndBuffersByName) {
  const auto host = make_host_backend();
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{-4}, std::int64_t{7}, std::int64_t{1} << 21})
    EXPECT_THROW(measure_roof(*host, {256, bytes}, 0.01), UserError) << bytes;
  EXPECT_THROW(measure_roof(*host, {256}, 0.01, 4096), Unsupported);
}

}  // namespace
}  // namespace sdm
