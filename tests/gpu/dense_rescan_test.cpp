// Every variant of dense_rescan over corner shapes: exact ones against the bits of the replay, all against the oracle.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "run/dense_checks.h"
#include "run/dense_conform.h"
#include "run/tensor_io.h"

namespace sdm {
namespace {

Parallel& threads() {
  static Parallel instance;
  return instance;
}

std::string name_of(const DenseWorkload& w) {
  constexpr const char* modes[] = {"off", "atomic", "ordered"};
  return fmt::format("B {} T {} HV {} K {} V {} {} dq {} h0 {}", w.batch, w.tokens, w.heads, w.key_dim, w.value_dim,
                     sdm::name_of(w.io_dtype), modes[static_cast<int>(w.dq)], w.initial_state);
}

std::vector<DenseWorkload> shapes() {
  std::vector<DenseWorkload> all;
  for (const DType io : {DType::bf16, DType::f16})
    for (const int key_dim : {64, 128})
      for (const int value_dim : {64, 128, 192, 256})
        for (const DqMode dq : {DqMode::off, DqMode::atomic, DqMode::ordered}) {
          if (io == DType::f16 && dq != DqMode::ordered) continue;
          all.push_back({.batch = 2,
                         .tokens = 320,
                         .heads = 2,
                         .key_dim = key_dim,
                         .value_dim = value_dim,
                         .io_dtype = io,
                         .dq = dq,
                         .seed = 3});
        }
  all.push_back({.tokens = 64, .heads = 1, .initial_state = false});  // a single chunk
  all.push_back({.tokens = 128, .heads = 1, .key_dim = 128, .value_dim = 512});
  all.push_back({.tokens = 2048, .heads = 2, .key_dim = 128, .value_dim = 256});
  return all;
}

class DenseOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (list_gpus().devices.empty()) GTEST_SKIP() << list_gpus().why_none;
    gpu_ = make_cuda_backend(0, false);
    host_ = make_host_backend();
  }

  static void run(DenseSession& session) {
    session.restore();
    session.run();
    session.backend().synchronize();
  }

  std::unique_ptr<Backend> gpu_, host_;
};

TEST_F(DenseOnGpu, EveryVariantKeepsItsPromise) {
  for (const DenseWorkload& workload : shapes()) {
    const DenseInputs inputs = generate_dense_inputs(workload, threads());
    DenseSession replay(workload, inputs, *host_, threads(), {});
    run(replay);
    std::map<std::string, std::string> expected = replay.digests();
    if (workload.dq == DqMode::atomic) expected.erase("dq");
    for (const auto* variant : registry().dense_rescan.variants) {
      if (!variant->refuse(replay.buffers().params(), *gpu_->device()).empty()) continue;
      for (const int tile : {0, 64, 128, 256})
        for (const int depth : {0, 1}) {
          SCOPED_TRACE(fmt::format("{}, {}, tile {}, depth {}", variant->name, name_of(workload), tile, depth));
          if ((tile != 0 && variant->name != "wgmma") || (depth != 0 && variant->name != "mma")) continue;
          DenseSession session(workload, inputs, *gpu_, threads(), {{"dense_rescan", std::string(variant->name)}});
          session.set_geometry({.tile = tile, .depth = depth});
          run(session);
          EXPECT_EQ(session.arena().first_broken_guard(), "");
          EXPECT_EQ(judge_dense(session, inputs, threads()).failure, "");
          const std::map<std::string, std::string> actual = session.digests();
          run(session);
          for (const auto& [tensor, digest] : session.digests()) {
            if (!expected.contains(tensor)) continue;
            EXPECT_EQ(digest, actual.at(tensor)) << tensor << " does not repeat";
            EXPECT_TRUE(variant->guarantee != Guarantee::exact || digest == expected.at(tensor))
                << tensor << " is not the replay's";
          }
        }
    }
  }
}

TEST_F(DenseOnGpu, TheStoredCaseConforms) {
  for (const ConformRow& row :
       conform_file(SDM_SOURCE_DIR "/tests/golden_dense/kda_dbg.safetensors", gpu_.get(), threads()))
    EXPECT_NE(row.verdict, ConformRow::Verdict::differs) << row.variant << " " << row.tensor << ": " << row.detail;
}

}  // namespace
}  // namespace sdm
