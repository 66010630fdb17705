// The sorted form of a chunk (spec 2.3) against its definition, rebuilt with std::sort.
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "run/sparse_session.h"

namespace sdm {
namespace {

struct Entry {
  bool padding;
  std::int64_t slot;
  int token, entry;
  auto key() const { return std::tuple(padding, padding ? 0 : slot, token, entry); }
};

/// The payloads of one side of one chunk, by the definition.
struct Expected {
  std::vector<std::uint32_t> payload;
  std::vector<std::int32_t> slot;
  std::vector<int> ordinals_before;  ///< valid groups that begin before the position
};

Expected expected_chunk(const std::int32_t* index, int chunk, int entries, int valid_tokens) {
  std::vector<Entry> sorted;
  for (int t = 0; t < chunk; ++t)
    for (int e = 0; e < entries; ++e) sorted.push_back({t >= valid_tokens, index[t * entries + e], t, e});
  std::sort(sorted.begin(), sorted.end(), [](const Entry& a, const Entry& b) { return a.key() < b.key(); });
  const auto same_group = [&](std::size_t i, std::size_t j) {
    return !sorted[i].padding && !sorted[j].padding && sorted[i].slot == sorted[j].slot;
  };
  Expected out;
  std::size_t first = 0;
  int groups = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const bool is_first = i == 0 || !same_group(i - 1, i), is_last = i + 1 == sorted.size() || !same_group(i, i + 1);
    out.ordinals_before.push_back(groups);
    if (is_first) first = i;
    if (is_first && !sorted[i].padding) ++groups;
    const auto distance = static_cast<std::uint32_t>(std::min<std::size_t>(i - first, 4095));
    out.payload.push_back((is_first ? 0x80000000u : 0u) | (is_last ? 0x40000000u : 0u) | distance << 18 |
                          (sorted[i].padding ? 0x20000u : 0u) | static_cast<std::uint32_t>(sorted[i].token) << 9 |
                          static_cast<std::uint32_t>(sorted[i].entry));
    out.slot.push_back(sorted[i].padding ? 0 : static_cast<std::int32_t>(sorted[i].slot));
  }
  return out;
}

void expect_side(const SparseSession& session, const SparseBuffers::Side& side, const std::vector<std::int32_t>& index,
                 int entries) {
  const Dims& d = session.buffers().dims;
  const int n = d.chunk * entries;
  for (std::int64_t chunk = 0; chunk < d.chunks(); ++chunk) {
    const Expected expected =
        expected_chunk(index.data() + chunk * n, d.chunk, entries, d.valid_tokens_of_chunk(chunk));
    const Window* windows = side.window.as<const Window>() + chunk * window_count(n);
    for (int i = 0; i < n; ++i) {
      const auto at = static_cast<std::size_t>(i);
      ASSERT_EQ(side.payload.as<const std::uint32_t>()[chunk * n + i], expected.payload[at])
          << "chunk " << chunk << " position " << i;
      ASSERT_EQ(side.slot.as<const std::int32_t>()[chunk * n + i], expected.slot[at])
          << "chunk " << chunk << " position " << i;
      const std::uint32_t payload = expected.payload[at];
      const int entry = token_of(payload) * entries + entry_of(payload);
      ASSERT_EQ(side.position.as<const std::int32_t>()[chunk * n + entry], i)
          << "chunk " << chunk << " entry " << entry;
      if (i % 32 == 0) {
        ASSERT_EQ(windows[i / 32].groups_before, expected.ordinals_before[at])
            << "chunk " << chunk << " position " << i;
      }
    }
  }
}

class GroupEntries : public testing::TestWithParam<Distribution::Kind> {};

TEST_P(GroupEntries, SortByTheDefinition) {
  SparseWorkload w;
  w.streams = 2, w.tokens = 75, w.chunk = 32, w.writes = 6, w.reads = 9, w.head_dim = 4, w.slots = 60, w.seed = 31;
  w.distribution.kind = GetParam();
  w.distribution.hot_slots = 9;
  Parallel threads(2);
  const std::unique_ptr<Backend> host = make_host_backend();
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, *host, threads, {});
  session.restore();
  session.run_only(Pass::forward, "group_entries", nullptr);
  expect_side(session, session.buffers().writes, inputs.k_idx, w.writes);
  expect_side(session, session.buffers().reads, inputs.q_idx, w.reads);
}

INSTANTIATE_TEST_SUITE_P(Laws, GroupEntries,
                         testing::Values(Distribution::Kind::uniform, Distribution::Kind::hot, Distribution::Kind::zipf,
                                         Distribution::Kind::sequential));

TEST(GroupEntriesLimits, LongestGroups) {
  // Every token writes every slot: one group of 256 per slot, the longest that there is.
  SparseWorkload w;
  w.streams = 1, w.tokens = 256, w.chunk = 256, w.writes = 17, w.reads = 1, w.head_dim = 1, w.slots = 17;
  Parallel threads(2);
  const std::unique_ptr<Backend> host = make_host_backend();
  const SparseInputs inputs = generate_inputs(w, threads);
  SparseSession session(w, inputs, *host, threads, {});
  session.restore();
  session.run_only(Pass::forward, "group_entries", nullptr);
  expect_side(session, session.buffers().writes, inputs.k_idx, w.writes);
}

}  // namespace
}  // namespace sdm
