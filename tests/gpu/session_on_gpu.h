#pragma once
// What the tests of whole sessions on a GPU share.
#include <gtest/gtest.h>

#include "check/check.h"

namespace sdm {

inline SparseWorkload workload(int streams, int tokens, int chunk, int entries, int head_dim, int slots) {
  SparseWorkload w;
  w.streams = streams, w.tokens = tokens, w.chunk = chunk, w.writes = w.reads = entries;
  w.head_dim = head_dim, w.slots = slots, w.final_bank_gradient = true, w.seed = 17;
  return w;
}

/// Skips where there is no GPU.
class SessionOnGpu : public testing::Test {
 protected:
  void SetUp() override {
    if (list_gpus().devices.empty()) GTEST_SKIP() << list_gpus().why_none;
    backend = make_cuda_backend(0, false);
  }
  std::unique_ptr<Backend> backend;
  Parallel threads;
};

}  // namespace sdm
