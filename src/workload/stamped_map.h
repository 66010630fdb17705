#pragma once
#include <bit>
#include <cstdint>
#include <vector>

#include "base/error.h"

namespace sdm {

/// A fixed-size open-addressing map from u32 to u32 that is emptied in O(1), for work repeated per token or per chunk.
class StampedMap {
 public:
  /// Holds up to `max_entries` keys between two calls of clear().
  explicit StampedMap(std::int64_t max_entries)
      : max_entries_(max_entries), cells_(std::bit_ceil(static_cast<std::uint64_t>(2 * max_entries + 2))) {
    shift_ = 32 - std::countr_zero(cells_.size());
    SDM_REQUIRE(shift_ >= 1 && shift_ < 32, "a map of {} entries", max_entries);
  }

  void clear() {
    entries_ = 0;
    if (++stamp_ != 0) return;
    for (Cell& cell : cells_) cell.stamp = 0;
    stamp_ = 1;
  }

  /// The value of `key`, which starts as `initial` when the key is new. Stays valid until clear().
  std::uint32_t& at(std::uint32_t key, std::uint32_t initial) {
    const std::size_t mask = cells_.size() - 1;
    std::size_t i = (key * 0x9e3779b9u) >> shift_;  // Fibonacci hashing: consecutive slots spread evenly
    while (cells_[i].stamp == stamp_ && cells_[i].key != key) i = (i + 1) & mask;
    Cell& cell = cells_[i];
    if (cell.stamp != stamp_) {
      SDM_REQUIRE(entries_ < max_entries_, "a map of {} entries is full", max_entries_);
      ++entries_;
      cell = {stamp_, key, initial};
    }
    return cell.value;
  }

 private:
  struct Cell {
    std::uint32_t stamp = 0, key = 0, value = 0;
  };
  std::int64_t max_entries_, entries_ = 0;
  std::vector<Cell> cells_;
  std::uint32_t stamp_ = 1;
  int shift_ = 0;
};

}  // namespace sdm
