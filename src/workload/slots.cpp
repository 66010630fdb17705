#include "workload/slots.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"

namespace sdm {
namespace {

// out.size() distinct numbers of [0, n) in random order, every ordered choice equally likely: the first steps of a
// Fisher-Yates shuffle of 0 .. n-1 of which only the moved positions are stored. No rejection, so n == out.size() is
// no harder than any other n.
void sample_distinct(RandomSequence& random, std::uint32_t n, std::span<std::int32_t> out, StampedMap& moved) {
  moved.clear();
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    const std::uint32_t j = i + random.below(n - i);
    const std::uint32_t displaced = moved.at(i, i);
    std::uint32_t& taken = moved.at(j, j);
    out[i] = static_cast<std::int32_t>(taken);
    taken = displaced;
  }
}

// Smallest f with f*f >= n.
std::uint32_t ceil_sqrt(std::uint32_t n) {
  std::uint64_t low = 1, high = 1 << 16;
  while (low < high) {
    const std::uint64_t middle = (low + high) / 2;
    if (middle * middle >= n) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return static_cast<std::uint32_t>(low);
}

// How far each of the best `out.size()` keys of one factor scores below the best, in units of 2^-32: the i-th gap is
// uniform in [0, 1/i). The largest of many independent scores with an exponential tail are spaced like this (Renyi's
// representation, with uniform in place of exponential variates so that integers suffice).
void draw_penalties(RandomSequence& random, std::span<std::uint64_t> out) {
  out[0] = 0;
  for (std::size_t i = 1; i < out.size(); ++i) out[i] = out[i - 1] + random.next() / i;
}

}  // namespace

SlotLaw::SlotLaw(const SparseWorkload& workload)
    : kind_(workload.distribution.kind),
      seed_(workload.seed),
      slots_(static_cast<std::uint32_t>(workload.slots)),
      hot_slots_(static_cast<std::uint32_t>(workload.distribution.hot_slots)) {
  SDM_REQUIRE(kind_ != Distribution::Kind::replay, "a captured workload draws no slots");
  if (kind_ == Distribution::Kind::zipf) {
    zipf_.emplace(slots_, workload.distribution.zipf_s);
    scatter_ = static_cast<std::uint32_t>((std::uint64_t{slots_} * 0x9e3779b9u) >> 32);  // slots / golden ratio
    while (std::gcd(scatter_, slots_) != 1) ++scatter_;
  } else if (kind_ == Distribution::Kind::product_key) {
    columns_ = ceil_sqrt(slots_);
    rows_ = (slots_ + columns_ - 1) / columns_;
  }
}

void SlotLaw::draw(Purpose purpose, std::uint32_t stream, std::uint32_t token, std::span<std::int32_t> out,
                   SlotScratch& scratch) const {
  RandomSequence random(seed_, purpose, token, stream);
  switch (kind_) {
    case Distribution::Kind::uniform: return sample_distinct(random, slots_, out, scratch.map);
    case Distribution::Kind::hot: return sample_distinct(random, hot_slots_, out, scratch.map);
    case Distribution::Kind::zipf: return draw_zipf(random, stream, out, scratch.map);
    case Distribution::Kind::product_key: return draw_product_key(random, out, scratch);
    case Distribution::Kind::sequential:
      for (std::size_t n = 0; n < out.size(); ++n) {
        out[n] = static_cast<std::int32_t>((token * std::uint64_t{out.size()} + n) % slots_);
      }
      return;
    case Distribution::Kind::replay: break;
  }
  SDM_REQUIRE(false, "no slot law {}", static_cast<int>(kind_));
}

// Draws ranks and keeps the new ones. A steep law over few slots would repeat itself for ever, so after a bounded
// number of draws the most probable ranks that are still free complete the token.
void SlotLaw::draw_zipf(RandomSequence& random, std::uint32_t stream, std::span<std::int32_t> out,
                        StampedMap& used) const {
  const RandomBlock offset = random_block(seed_, Purpose::slot_scatter, 0, 0, stream);
  const std::uint32_t shift = scale_below(offset.word[0], offset.word[1], slots_);
  const auto take = [&](std::size_t n, std::uint32_t rank) {
    if (used.at(rank, 0)++ != 0) return false;
    out[n] = static_cast<std::int32_t>((std::uint64_t{rank} * scatter_ + shift) % slots_);
    return true;
  };
  used.clear();
  std::size_t n = 0;
  const std::size_t max_draws = 16 * out.size();
  for (std::size_t draws = 0; n < out.size() && draws < max_draws; ++draws) {
    if (take(n, zipf_->draw(random))) ++n;
  }
  for (std::uint32_t rank = 0; n < out.size(); ++rank) {
    if (take(n, rank)) ++n;
  }
}

// The best pairs of the best rows and the best columns, by the sum of their penalties: a merge over rows of their
// column lists, on a heap of keys penalty << 16 | row rank << 8 | column rank (ties go to the smaller ranks). A row
// enters the heap when the row before it first leaves it. When rows*columns > slots the end of the last row names no
// slot and is passed over; two rows (or all there are) always hold enough pairs, because the other rows are complete.
void SlotLaw::draw_product_key(RandomSequence& random, std::span<std::int32_t> out, SlotScratch& scratch) const {
  const auto wanted = static_cast<std::uint32_t>(std::max<std::size_t>(out.size(), 2));
  std::vector<std::int32_t>&rows = scratch.rows, &columns = scratch.columns;
  std::vector<std::uint64_t>&row_penalty = scratch.row_penalty, &column_penalty = scratch.column_penalty;
  std::vector<std::uint64_t>& heap = scratch.heap;
  rows.resize(std::min(wanted, rows_));
  columns.resize(std::min(wanted, columns_));
  row_penalty.resize(rows.size());
  column_penalty.resize(columns.size());
  sample_distinct(random, rows_, rows, scratch.map);
  sample_distinct(random, columns_, columns, scratch.map);
  draw_penalties(random, row_penalty);
  draw_penalties(random, column_penalty);

  heap.clear();
  const auto push = [&](std::size_t row, std::size_t column) {
    if (row >= rows.size() || column >= columns.size()) return;
    heap.push_back((row_penalty[row] + column_penalty[column]) << 16 | row << 8 | column);
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  push(0, 0);
  for (std::size_t n = 0; n < out.size();) {
    SDM_REQUIRE(!heap.empty(), "only {} of {} product keys exist", n, out.size());
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    const std::size_t row = heap.back() >> 8 & 255, column = heap.back() & 255;
    heap.pop_back();
    const std::uint64_t slot =
        std::uint64_t{columns_} * static_cast<std::uint32_t>(rows[row]) + static_cast<std::uint32_t>(columns[column]);
    if (slot < slots_) out[n++] = static_cast<std::int32_t>(slot);
    push(row, column + 1);
    if (column == 0) push(row + 1, 0);
  }
}

}  // namespace sdm
