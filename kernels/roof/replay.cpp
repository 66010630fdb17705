#include <algorithm>
#include <atomic>

#include "base/parallel.h"
#include "kernels/roof/roof.h"

namespace sdm::roof {
namespace {

template <typename Word, bool kWrite>
std::uint32_t touch_row(Word* row, std::int64_t words) {
  std::uint32_t seen = 0;
  for (std::int64_t i = 0; i < words; ++i) {
    seen ^= row[i];
    if constexpr (kWrite) row[i] = static_cast<Word>(row[i] ^ kFlip);
  }
  return seen;
}

template <typename Word>
void touch_rows(const RowPass& pass, Parallel& threads) {
  constexpr std::int64_t kGrain = 1024;
  const std::int64_t words = pass.row_bytes / static_cast<std::int64_t>(sizeof(Word));
  threads.for_ranges(pass.touched, kGrain, [&](std::int64_t begin, std::int64_t end) {
    std::uint32_t seen = 0;
    for (std::int64_t i = begin; i < end; ++i) {
      Word* row = static_cast<Word*>(pass.rows) + pass.order[i] * words;
      seen ^= pass.write_back ? touch_row<Word, true>(row, words) : touch_row<Word, false>(row, words);
    }
    std::atomic_ref(pass.seen[0]).fetch_xor(seen, std::memory_order_relaxed);
  });
}

}  // namespace

void replay(const RowPass& pass, Parallel& threads) {
  if (word_bytes(pass.row_bytes) >= 4)
    touch_rows<std::uint32_t>(pass, threads);
  else
    touch_rows<std::uint16_t>(pass, threads);
}

}  // namespace sdm::roof
