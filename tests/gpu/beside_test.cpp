// Stages beside each other on a GPU: what a variant does not read has no influence on its bits, and passes that run
// stages beside each other have the bits of those that do not.
#include <gtest/gtest.h>

#include "session_on_gpu.h"

namespace sdm {
namespace {

class BesideOnGpu : public SessionOnGpu {};

std::string interactions_digest(const SparseSession& session) {
  return session.digest(session.buffers().a) + session.digest(session.buffers().qk);
}

TEST_F(BesideOnGpu, InteractionsReadNothingOfTheStageThatTheyAreIndependentOf) {
  const SparseWorkload w = workload(2, 256, 64, 32, 16, 4096);
  const SparseInputs inputs = generate_inputs(w, threads);
  int independent = 0;
  for (const auto* variant : registry().interactions.variants) {
    if (variant->independent_of != "decay_sums") continue;
    ++independent;
    SparseSession session(w, inputs, *backend, threads, {{"interactions", std::string(variant->name)}});
    session.restore();
    session.run(Pass::forward);
    const std::string expected = interactions_digest(session);
    for (const Tensor* tensor : session.buffers().tensors())
      if (tensor->stage == "decay_sums") backend->fill(tensor->data, 0xc3, tensor->bytes());
    session.run_only(Pass::forward, "interactions", nullptr);
    EXPECT_EQ(interactions_digest(session), expected) << variant->name;
  }
  EXPECT_GT(independent, 0);
}

/// Chunks that decay_sums gives a CTA each, and those that one CTA a multiprocessor takes in turn.
TEST_F(BesideOnGpu, KeepsTheBits) {
  for (const int tokens : {2048, 4096, 4001, 16384}) {
    const SparseWorkload w = workload(4, tokens, 64, 32, 16, 65536);
    const SparseInputs inputs = generate_inputs(w, threads);
    SparseSession session(w, inputs, *backend, threads, {});
    EXPECT_EQ(session.plan().interactions.variant->independent_of == "decay_sums", tokens > 2048);
    session.set_launch(LaunchMode::eager);
    const StepDigests expected = run_step(session);
    for (const LaunchMode mode : {LaunchMode::graph, LaunchMode::automatic, LaunchMode::plan, LaunchMode::fused}) {
      session.set_launch(mode);
      for (int run = 0; run < 3; ++run)
        EXPECT_EQ(first_difference(session.buffers(), expected, run_step(session)), "") << session.launch_name();
    }
  }
}

}  // namespace
}  // namespace sdm
