#include <algorithm>
#include <atomic>
#include <bit>
#include <mutex>
#include <span>

#include "base/parallel.h"
#include "workload/sparse.h"
#include "workload/stamped_map.h"

namespace sdm {
namespace {

struct GroupCount {
  std::int64_t entries = 0, groups = 0, singletons = 0, longest = 0;

  void count(std::uint32_t length_now) {
    ++entries;
    if (length_now == 1) {
      ++groups;
      ++singletons;
    } else if (length_now == 2) {
      --singletons;
    }
    longest = std::max<std::int64_t>(longest, length_now);
  }

  void merge(const GroupCount& other) {
    entries += other.entries;
    groups += other.groups;
    singletons += other.singletons;
    longest = std::max(longest, other.longest);
  }

  double singleton_share() const {
    return groups == 0 ? 0 : static_cast<double>(singletons) / static_cast<double>(groups);
  }
};

// One bit per row of the bank, set by any thread. The load before the read-modify-write spares most of the latter.
class RowSet {
 public:
  explicit RowSet(std::int64_t rows) : words_(static_cast<std::size_t>((rows + 63) / 64)) {}

  void insert(std::uint32_t row) {
    std::atomic_ref<std::uint64_t> word(words_[row / 64]);
    const std::uint64_t bit = std::uint64_t{1} << (row % 64);
    if ((word.load(std::memory_order_relaxed) & bit) == 0) word.fetch_or(bit, std::memory_order_relaxed);
  }

  std::int64_t size() const {
    std::int64_t total = 0;
    for (const std::uint64_t word : words_) total += std::popcount(word);
    return total;
  }

 private:
  std::vector<std::uint64_t> words_;
};

// The groups of all chunks of one index array [N, C, width]; marks the rows it meets in `seen`.
GroupCount count_groups(const SparseWorkload& workload, std::span<const std::int32_t> indices, std::int32_t width,
                        RowSet& seen, Parallel& threads) {
  GroupCount total;
  std::mutex mutex;
  const std::int64_t grain = std::clamp<std::int64_t>(workload.chunks() / (8 * threads.threads()), 1, 64);
  threads.for_ranges(workload.chunks(), grain, [&](std::int64_t begin, std::int64_t end) {
    GroupCount mine;
    StampedMap length(std::int64_t{workload.chunk} * width);
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      const std::int64_t first_token = chunk / workload.streams * workload.chunk;
      const std::int64_t valid = std::min<std::int64_t>(workload.chunk, workload.tokens - first_token) * width;
      length.clear();
      const std::int64_t first = chunk * workload.chunk * width;
      for (const std::int32_t index :
           indices.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(valid))) {
        const auto row = static_cast<std::uint32_t>(index);
        mine.count(++length.at(row, 0));
        seen.insert(row);
      }
    }
    const std::lock_guard lock(mutex);  // integer sums and maxima: the order of threads does not show
    total.merge(mine);
  });
  return total;
}

/// Distinct (chunk, row) pairs over both sides.
std::int64_t count_touched(const SparseWorkload& workload, const SparseInputs& inputs, Parallel& threads) {
  std::atomic<std::int64_t> total{0};
  threads.for_ranges(workload.chunks(), 8, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t mine = 0;
    StampedMap seen(std::int64_t{workload.chunk} * (workload.writes + workload.reads));
    const auto mark = [&](std::span<const std::int32_t> rows) {
      for (const std::int32_t row : rows) mine += seen.at(static_cast<std::uint32_t>(row), 0)++ == 0 ? 1 : 0;
    };
    for (std::int64_t chunk = begin; chunk < end; ++chunk) {
      seen.clear();
      const std::int64_t tokens =
          std::min<std::int64_t>(workload.chunk, workload.tokens - chunk / workload.streams * workload.chunk);
      const auto part = [&](const std::vector<std::int32_t>& index, std::int64_t width) {
        return std::span(index).subspan(static_cast<std::size_t>(chunk * workload.chunk * width),
                                        static_cast<std::size_t>(tokens * width));
      };
      mark(part(inputs.k_idx, workload.writes));
      mark(part(inputs.q_idx, workload.reads));
    }
    total += mine;
  });
  return total;
}

}  // namespace

WorkloadFacts measure_facts(const SparseWorkload& workload, const SparseInputs& inputs, Parallel& threads) {
  RowSet seen(workload.rows());
  const GroupCount writes = count_groups(workload, inputs.k_idx, workload.writes, seen, threads);
  const GroupCount reads = count_groups(workload, inputs.q_idx, workload.reads, seen, threads);
  WorkloadFacts facts;
  facts.write_entries = writes.entries;
  facts.read_entries = reads.entries;
  facts.write_groups = writes.groups;
  facts.read_groups = reads.groups;
  facts.write_singleton_share = writes.singleton_share();
  facts.read_singleton_share = reads.singleton_share();
  facts.longest_write_group = writes.longest;
  facts.longest_read_group = reads.longest;
  facts.touched_rows = count_touched(workload, inputs, threads);
  facts.slot_coverage = static_cast<double>(seen.size()) / static_cast<double>(workload.rows());
  return facts;
}

}  // namespace sdm
