// Every variant of dense_rescan over corner shapes: exact ones against the bits of the replay, all against the oracle.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <map>

#include "run/dense_checks.h"
#include "run/dense_conform.h"
#include "run/tensor_io.h"

namespace sdm {
namespace {

using dense_rescan::Params;

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
  for (const int value_dim : {64, 128, 192, 256, 320})
    for (const int key_dim : {64, 128})
      for (const DType io : {DType::bf16, DType::f16})
        for (const DqMode dq : {DqMode::ordered, DqMode::off, DqMode::atomic}) {
          if (dq != DqMode::ordered && (io == DType::f16 || value_dim % 128 != 0)) continue;
          all.push_back({.batch = 2,
                         .tokens = 320,  // five chunks: rings of up to four stages go round
                         .heads = 1,
                         .key_dim = key_dim,
                         .value_dim = value_dim,
                         .io_dtype = io,
                         .dq = dq,
                         .seed = 3});
        }
  all.push_back({.tokens = 64, .heads = 1, .initial_state = false});  // a single chunk
  all.push_back({.tokens = 128, .heads = 3, .key_dim = 128, .value_dim = 512});
  return all;
}

/// Launch geometries that a variant knows.
std::vector<Geometry> geometries(std::string_view variant) {
  if (variant == "simt") return {{}, {.tile = 16}, {.tile = 32}, {.tile = 64}};
  if (variant == "mma") return {{}, {.tile = 16}, {.tile = 32}, {.tile = 64}, {.tile = 64, .depth = 1}};
  return {{}, {.tile = 64}, {.tile = 128}, {.tile = 256}};
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

  /// Every step of the outputs in `session` against the oracle; the replay that exact variants equal passes the other
  /// judges elsewhere (tests/unit/dense_rescan_test.cpp).
  static std::string judge(const DenseSession& session, const DenseInputs& inputs) {
    const DenseWorkload& workload = session.buffers().workload;
    const double unit = oracle::accumulation_unit(session.guarantee() != Guarantee::exact);
    const auto streams = static_cast<std::size_t>(workload.streams());
    std::vector<oracle::DenseStates> states;
    for (std::size_t i = 0; i < streams; ++i) states.push_back(session.states(static_cast<std::int64_t>(i)));
    std::vector<std::string> failures(streams);
    threads().for_each(workload.streams(), [&](std::int64_t i) {
      const auto at = static_cast<std::size_t>(i);
      failures[at] = oracle::judge_dense_steps(oracle::dense_stream(workload, inputs, i), states[at], unit).failure;
    });
    std::string all;
    for (const std::string& failure : failures) all += failure;
    return all;
  }

  std::unique_ptr<Backend> gpu_, host_;
};

/// Eight tiles add to every element of dq in the order in which they come by; all their CTAs run at once.
TEST_F(DenseOnGpu, AtomicDqVaries) {
  const DenseWorkload workload{
      .batch = 2, .tokens = 128, .heads = 4, .key_dim = 128, .value_dim = 512, .dq = DqMode::atomic};
  const DenseInputs inputs = generate_dense_inputs(workload, threads());
  DenseSession session(workload, inputs, *gpu_, threads(), {{"dense_rescan", "mma"}});
  run(session);
  const std::string first = session.digests().at("dq");
  int runs = 1;
  for (; runs <= 50; ++runs) {
    run(session);
    if (session.digests().at("dq") != first) break;
  }
  EXPECT_LE(runs, 50) << "50 runs gave the same bits: this would be no baseline to compare determinism with";
}

TEST_F(DenseOnGpu, WhatCannotRunHereSaysSo) {
  const Params params = DenseBuffers({}).params();
  for (const auto* variant : registry().dense_rescan.variants) {
    Device other = *gpu_->device();
    other.compute_capability = 75;
    EXPECT_EQ(variant->refuse(params, other).empty(), variant->name == "simt") << variant->name;
    if (variant->name == "tcgen05" && gpu_->device()->compute_capability != 100) {
      EXPECT_NE(variant->refuse(params, *gpu_->device()).find("tcgen05 is"), std::string::npos);
    }
  }
}

TEST_F(DenseOnGpu, TheStoredCaseConforms) {
  for (const ConformRow& row :
       conform_file(SDM_SOURCE_DIR "/tests/golden_dense/kda_dbg.safetensors", gpu_.get(), threads()))
    EXPECT_NE(row.verdict, ConformRow::Verdict::differs) << row.variant << " " << row.tensor << ": " << row.detail;
}

TEST_F(DenseOnGpu, EveryVariantKeepsItsPromise) {
  for (const DenseWorkload& workload : shapes()) {
    std::printf("%s\n", name_of(workload).c_str());
    std::fflush(stdout);  // how far it came, should it be stopped
    const DenseInputs inputs = generate_dense_inputs(workload, threads());
    DenseSession replay(workload, inputs, *host_, threads(), {});
    run(replay);
    std::map<std::string, std::string> expected = replay.digests();
    if (workload.dq == DqMode::atomic) expected.erase("dq");
    for (const auto* variant : registry().dense_rescan.variants) {
      if (!variant->refuse(replay.buffers().params(), *gpu_->device()).empty()) continue;
      DenseSession session(workload, inputs, *gpu_, threads(), {{"dense_rescan", std::string(variant->name)}});
      std::map<std::string, std::string> first;
      for (const Geometry& geometry : geometries(variant->name)) {
        SCOPED_TRACE(
            fmt::format("{}, {}, tile {}, depth {}", variant->name, name_of(workload), geometry.tile, geometry.depth));
        session.set_geometry(geometry);
        run(session);
        EXPECT_EQ(session.arena().first_broken_guard(), "");
        const std::map<std::string, std::string> actual = session.digests();
        const bool seen = actual == first;  // and judged
        EXPECT_EQ(seen ? "" : judge(session, inputs), "");
        if (first.empty()) first = actual;
        run(session);
        for (const auto& [tensor, digest] : session.digests()) {
          if (!expected.contains(tensor)) continue;
          EXPECT_EQ(digest, actual.at(tensor)) << tensor << " does not repeat";
          EXPECT_TRUE(variant->guarantee != Guarantee::exact || digest == expected.at(tensor))
              << tensor << " is not the replay's";
          EXPECT_TRUE(variant->name != "mma" || digest == first.at(tensor)) << tensor << " depends on the tile";
        }
      }
    }
  }
}

}  // namespace
}  // namespace sdm
