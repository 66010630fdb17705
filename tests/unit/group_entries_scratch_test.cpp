#include <gtest/gtest.h>

#include "kernels/group_entries/group_entries.h"

namespace sdm {
namespace {

Dims dims_of(int streams, int steps, int chunk, int writes, int reads) {
  Dims dims;
  dims.streams = streams;
  dims.steps = steps;
  dims.tokens = steps * chunk;
  dims.chunk = chunk;
  dims.writes = writes;
  dims.reads = reads;
  dims.head_dim = 8;
  dims.slots = 1024;
  return dims;
}

// Every CTA of `radix` owns two lists of (key, entry) pairs, each as long as the longer side of a chunk.
TEST(GroupEntriesScratch, CoversTwoListsForEveryCta) {
  constexpr std::int64_t kPairBytes = 8;
  EXPECT_EQ(group_entries::scratch_bytes(dims_of(1, 1, 4, 3, 2)), 2 * 2 * kPairBytes * 12);
  EXPECT_EQ(group_entries::scratch_bytes(dims_of(2, 3, 8, 2, 5)), 12 * 2 * kPairBytes * 40);
}

TEST(GroupEntriesScratch, StopsGrowingWithTheNumberOfChunks) {
  const std::int64_t few = group_entries::scratch_bytes(dims_of(8, 64, 256, 256, 256));
  const std::int64_t many = group_entries::scratch_bytes(dims_of(64, 4096, 256, 256, 256));
  EXPECT_EQ(few, many);
  EXPECT_EQ(many, group_entries::kRadixBlocks * 2 * 8 * 65536);
}

}  // namespace
}  // namespace sdm
