// What the stages' parameters say beyond the tensors that they point to.
#include <gtest/gtest.h>

#include "pipeline/sparse_bind.h"

namespace sdm {
namespace {

TEST(SparseBind, GatherKnowsWhetherWriteQuantizes) {  // changes no bits, so no digest would show it
  SparseWorkload w;
  for (const SnapshotFormat snapshot : {SnapshotFormat::none, SnapshotFormat::per_entry, SnapshotFormat::raw,
                                        SnapshotFormat::bf16, SnapshotFormat::fp8, SnapshotFormat::int4}) {
    w.bank_dtype = w.grad_dtype = snapshot == SnapshotFormat::bf16 ? DType::f32 : DType::bf16;
    w.snapshot = snapshot;
    const bool quantizes = snapshot == SnapshotFormat::fp8 || snapshot == SnapshotFormat::int4;
    EXPECT_EQ(bind::gather(SparseBuffers(w)).write_quantizes, quantizes) << name_of(snapshot);
  }
}

}  // namespace
}  // namespace sdm
