// Which tensors a workload has.
#include "pipeline/sparse_buffers.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "run/sparse_session.h"

namespace sdm {
namespace {

SparseWorkload workload(SnapshotFormat snapshot) {
  SparseWorkload w;
  w.streams = 2, w.tokens = 64, w.chunk = 16, w.writes = w.reads = 8, w.head_dim = 256, w.slots = 512;
  w.snapshot = snapshot;
  return w;
}

bool has(const SparseBuffers& buffers, std::string_view name) {
  const auto tensors = buffers.tensors();
  return std::any_of(tensors.begin(), tensors.end(), [&](const Tensor* t) { return t->name == name; });
}

TEST(SparseBuffers, AForwardAloneHasNothingOfTheBackward) {
  const SparseBuffers both(workload(SnapshotFormat::raw)), forward(workload(SnapshotFormat::none));
  for (const char* name : {"bank", "v", "retrieved", "delta_v", "reading", "write_record"}) {
    EXPECT_TRUE(has(both, name)) << name;
    EXPECT_TRUE(has(forward, name)) << name;
  }
  for (const char* name : {"snapshot", "grad", "d_reading", "u", "d_dva", "d_kw_planes", "d_kw", "dm", "d_q", "d_g"}) {
    EXPECT_TRUE(has(both, name)) << name;
    EXPECT_FALSE(has(forward, name)) << name;
  }
}

TEST(SparseBuffers, AForwardAloneNeedsLittleMoreThanHalfOfTheMemory) {
  const auto both = static_cast<double>(SparseSession::bytes_for(workload(SnapshotFormat::raw)));
  const auto forward = static_cast<double>(SparseSession::bytes_for(workload(SnapshotFormat::none)));
  EXPECT_LT(forward, 0.6 * both);
  EXPECT_GT(forward, 0.3 * both);
}

}  // namespace
}  // namespace sdm
