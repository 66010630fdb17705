// Branches of streams on a GPU: the steps in branches have the bits of one launch for all streams, whatever variant
// runs.
#include <gtest/gtest.h>

#include "base/error.h"
#include "session_on_gpu.h"

namespace sdm {
namespace {

class BranchesOnGpu : public SessionOnGpu {
 protected:
  /// Compares the mode of `auto`, in which named variants run in branches, with launches one by one.
  void expect_same_bits(const SparseWorkload& w, const std::map<std::string, std::string>& variants) {
    const SparseInputs inputs = generate_inputs(w, threads);
    SparseSession session(w, inputs, *backend, threads, variants);
    session.set_launch(LaunchMode::eager);
    const StepDigests expected = run_step(session);
    session.set_launch(LaunchMode::automatic);
    EXPECT_FALSE(session.fused());
    for (int run = 0; run < 2; ++run) EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "");
    ++compared;
  }
  int compared = 0;
};

SparseWorkload saving(SnapshotFormat format, int streams, int head_dim) {
  SparseWorkload w = workload(streams, 200, 64, 24, head_dim, 4096);
  w.snapshot = format;
  if (format == SnapshotFormat::bf16) w.bank_dtype = w.grad_dtype = DType::f32;
  return w;
}

TEST_F(BranchesOnGpu, AnyNumberOfStreams) {
  for (const int streams : {1, 2, 3, 4, 5, 9})
    for (const int head_dim : {40, 128, 960}) {
      SCOPED_TRACE(testing::Message() << streams << " streams, " << head_dim << " columns");
      expect_same_bits(saving(SnapshotFormat::raw, streams, head_dim), {{"mix", "simt"}});
    }
}

TEST_F(BranchesOnGpu, EveryVariantOfTheStepsInEveryFormat) {
  const auto try_stage = [&](const auto& stage) {
    for (const auto* variant : stage.variants) {
      if (variant->guarantee != Guarantee::exact) continue;
      for (const SnapshotFormat format : {SnapshotFormat::per_entry, SnapshotFormat::raw, SnapshotFormat::bf16,
                                          SnapshotFormat::fp8, SnapshotFormat::int4})
        for (const int head_dim : {100, 128, 512}) {
          SCOPED_TRACE(testing::Message() << stage.name << "/" << variant->name << ", " << name_of(format) << ", "
                                          << head_dim << " columns");
          try {
            expect_same_bits(saving(format, 5, head_dim), {{std::string(stage.name), std::string(variant->name)}});
          } catch (const Unsupported&) {
          }
        }
    }
  };
  const Registry& r = registry();
  try_stage(r.gather), try_stage(r.mix), try_stage(r.write);
  try_stage(r.gather_grad), try_stage(r.mix_grad), try_stage(r.undo), try_stage(r.read_grad);
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace sdm
