#include <array>

#include "kernels/common/host.h"
#include "kernels/group_entries/group_entries.h"

namespace sdm::group_entries {
namespace {

constexpr int kDigitBits = 11;

/// Stable sort of entries by slot; entries come in (token, entry) order, so the result is in (slot, token, entry)
/// order.
class SlotSorter {
 public:
  struct Item {
    std::uint32_t slot;  // within the stream
    std::uint32_t entry;
  };
  std::vector<Item> items, other;

  void sort(std::int64_t slots) {
    other.resize(items.size());
    for (int shift = 0; shift < 32 && (shift == 0 || (slots - 1) >> shift > 0); shift += kDigitBits) {
      std::array<std::uint32_t, (1u << kDigitBits) + 1> start{};
      const auto digit = [shift](const Item& item) { return (item.slot >> shift) & ((1u << kDigitBits) - 1); };
      for (const Item& item : items) ++start[digit(item) + 1];
      for (std::size_t d = 1; d < start.size(); ++d) start[d] += start[d - 1];
      for (const Item& item : items) other[start[digit(item)]++] = item;
      items.swap(other);
    }
  }
};

struct Side {
  AnyPtr index;
  const Groups* groups;
  int entries;
};

void sort_side(const Dims& dims, std::int64_t chunk, const Side& side, SlotSorter& sorter) {
  const int n = dims.chunk * side.entries;
  const int valid = dims.valid_tokens_of_chunk(chunk) * side.entries;
  const std::int64_t base = chunk % dims.streams * dims.slots;
  const std::int64_t at = chunk * n;
  sorter.items.resize(static_cast<std::size_t>(valid));
  for (int e = 0; e < valid; ++e)
    sorter.items[static_cast<std::size_t>(e)] = {static_cast<std::uint32_t>(host::index_at(side.index, at + e) - base),
                                                 static_cast<std::uint32_t>(e)};
  sorter.sort(dims.slots);
  int first = 0;
  for (int i = 0; i < n; ++i) {
    const bool invalid = i >= valid;
    const auto& item =
        invalid ? SlotSorter::Item{0, static_cast<std::uint32_t>(i)} : sorter.items[static_cast<std::size_t>(i)];
    const int entry = static_cast<int>(item.entry);
    const bool is_first = invalid || i == 0 || sorter.items[static_cast<std::size_t>(i) - 1].slot != item.slot;
    const bool is_last = invalid || i + 1 == valid || sorter.items[static_cast<std::size_t>(i) + 1].slot != item.slot;
    if (is_first) first = i;
    side.groups->payload[at + i] =
        make_payload(is_first, is_last, i - first, invalid, entry / side.entries, entry % side.entries);
    side.groups->slot[at + i] = invalid ? 0 : static_cast<std::int32_t>(base + item.slot);
    side.groups->position[at + entry] = i;
  }
}

void fill_windows(const Groups& groups, std::int64_t chunk, int n) {
  const std::uint32_t* payload = groups.payload + chunk * n;
  Window* window = groups.window + chunk * window_count(n);
  int before = 0;
  for (int w = 0; w < window_count(n); ++w) {
    window[w].groups_before = before;
    for (int i = 32 * w; i < std::min(32 * (w + 1), n); ++i)
      before += (payload[i] & kFirst) && !(payload[i] & kInvalid) ? 1 : 0;
  }
  int next = n;
  for (int w = window_count(n) - 1; w >= 0; --w) {
    for (int i = std::min(32 * (w + 1), n) - 1; i >= 32 * w; --i)
      if (payload[i] & kFirst) next = i;
    window[w].next_first = next;
  }
}

/// Joins the sorted slots of both sides: every position learns where the other side's group of its slot begins.
void match_sides(const Dims& dims, std::int64_t chunk, const Groups& mine, int my_entries, const Groups& theirs,
                 int their_entries) {
  const int valid_tokens = dims.valid_tokens_of_chunk(chunk);
  const std::int64_t at = chunk * dims.chunk * my_entries, other = chunk * dims.chunk * their_entries;
  const int valid = valid_tokens * my_entries, other_valid = valid_tokens * their_entries;
  int j = 0;
  for (int i = 0; i < valid; ++i) {
    const std::int32_t slot = mine.slot[at + i];
    while (j < other_valid && theirs.slot[other + j] < slot) ++j;
    mine.match[at + i] = j < other_valid && theirs.slot[other + j] == slot ? j : -1;
  }
  std::fill(mine.match + at + valid, mine.match + at + std::int64_t{dims.chunk} * my_entries, -1);
}

}  // namespace

void replay(const Params& p, Parallel& threads) {
  threads.for_ranges(p.dims.chunks(), 1, [&](std::int64_t begin, std::int64_t end) {
    SlotSorter sorter;
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      sort_side(p.dims, chunk, {p.k_idx, &p.writes, p.dims.writes}, sorter);
      sort_side(p.dims, chunk, {p.q_idx, &p.reads, p.dims.reads}, sorter);
      fill_windows(p.writes, chunk, p.dims.write_positions());
      fill_windows(p.reads, chunk, p.dims.read_positions());
      match_sides(p.dims, chunk, p.writes, p.dims.writes, p.reads, p.dims.reads);
      match_sides(p.dims, chunk, p.reads, p.dims.reads, p.writes, p.dims.writes);
    }
  });
}

}  // namespace sdm::group_entries
