#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "numerics/f16.h"
#include "run/dense_checks.h"
#include "run/dense_conform.h"

namespace sdm {
namespace {

Parallel& threads() {
  static Parallel instance(2);
  return instance;
}

struct RunOf {
  DenseWorkload workload;
  DenseInputs inputs;
  std::unique_ptr<Backend> host = make_host_backend();
  DenseSession session;

  explicit RunOf(const DenseWorkload& w)
      : workload(w), inputs(generate_dense_inputs(w, threads())), session(w, inputs, *host, threads(), {}) {
    session.restore();
    session.run();
  }
  oracle::DenseStream stream(std::int64_t i) const { return oracle::dense_stream(workload, inputs, i); }
};

constexpr DenseWorkload kSmall{.batch = 2, .tokens = 256, .heads = 2, .key_dim = 64, .value_dim = 128, .seed = 5};

std::vector<DenseWorkload> shapes() {
  std::vector<DenseWorkload> all;
  for (const DType io : {DType::bf16, DType::f16})
    for (const int key_dim : {64, 128})
      for (const int value_dim : {64, 192, 320})
        all.push_back({.tokens = 192,
                       .heads = 1,
                       .key_dim = key_dim,
                       .value_dim = value_dim,
                       .io_dtype = io,
                       .seed = static_cast<std::uint64_t>(key_dim + value_dim)});
  all.push_back(kSmall);
  all.push_back({.tokens = 64, .heads = 2, .initial_state = false});
  all.push_back({.tokens = 1024, .heads = 1, .dq = DqMode::off, .seed = 11});
  return all;
}

TEST(Dense, TheReplayHoldsAgainstAllThreeOracles) {
  for (const DenseWorkload& workload : shapes()) {
    const RunOf run(workload);
    const DenseOracleVerdict verdict = judge_dense(run.session, run.inputs, threads());
    EXPECT_EQ(verdict.failure, "") << "K " << workload.key_dim << " V " << workload.value_dim << " seed "
                                   << workload.seed;
    EXPECT_EQ(verdict.streams, workload.streams());
    RecordProperty("steps", std::to_string(verdict.steps));
    std::printf("largest error / bound: steps %.3f, free run %.3f, tokens %.3f\n", verdict.steps, verdict.chunks,
                verdict.tokens);
  }
}

TEST(Dense, InputsAreTheSameOnAnyNumberOfThreadsAndOfSequences) {
  Parallel one(1);
  DenseWorkload alone = kSmall;
  alone.batch = 1;
  const DenseInputs a = generate_dense_inputs(kSmall, threads()), b = generate_dense_inputs(kSmall, one),
                    c = generate_dense_inputs(alone, one);
  EXPECT_TRUE(a.w == b.w && a.kg == b.kg && a.u == b.u && a.d_out == b.d_out && a.g2 == b.g2 && a.h0 == b.h0);
  EXPECT_TRUE(std::equal(c.w.begin(), c.w.end(), a.w.begin()) && std::equal(c.h0.begin(), c.h0.end(), a.h0.begin()));
}

TEST(Dense, StatesStayBoundedOverALongSequence) {
  DenseWorkload workload{.tokens = 8192, .heads = 1, .dq = DqMode::off};
  const RunOf run(workload);
  const oracle::DenseStates states = run.session.states(0);
  double largest = 0, square = 0;
  for (const double x : states.checkpoints) largest = std::max(largest, std::abs(x));
  for (const double x : states.final_state) square += x * x;
  EXPECT_LT(largest, 8);
  EXPECT_GT(std::sqrt(square / static_cast<double>(states.final_state.size())), 0.02) << "states die out";
}

TEST(Dense, ARunLeavesNothingUnwrittenAndTouchesNothingElse) {
  RunOf run(kSmall);
  DenseCheckContext context{run.workload, run.inputs, run.session, *run.host, threads(), run.session.digests()};
  for (const CheckSpec::Kind kind :
       {CheckSpec::Kind::guards, CheckSpec::Kind::repeat, CheckSpec::Kind::invariance, CheckSpec::Kind::oracle}) {
    const CheckResult result = run_dense_check({.kind = kind}, context);
    EXPECT_EQ(result.status, CheckResult::Status::passed) << result.name << ": " << result.detail;
  }
}

/// A fault planted in the outputs of a right run, and which of the judges must see it.
struct Fault {
  const char* name;
  void (*plant)(oracle::DenseStates&, const oracle::DenseStream&);
};

std::size_t middle(const std::vector<double>& x) { return x.size() / 2 + 3; }

const Fault kFaults[] = {
    {"v_new off by two spacings",
     [](auto& o, auto& s) { o.v_new[middle(o.v_new)] += 2 * oracle::io_spacing(o.v_new[middle(o.v_new)], s.io); }},
    {"checkpoint off by two spacings",
     [](auto& o, auto& s) {
       o.checkpoints[middle(o.checkpoints)] += 2 * oracle::io_spacing(o.checkpoints[middle(o.checkpoints)], s.io);
     }},
    {"dq off by 1e-3", [](auto& o, auto&) { o.dq[middle(o.dq)] += 1e-3; }},
    {"final state off by 1e-4", [](auto& o, auto&) { o.final_state[middle(o.final_state)] += 1e-4; }},
    {"dq misses a tile",
     [](auto& o, auto& s) {
       const std::size_t row = 5;
       for (int v = 64; v < 128; ++v)
         o.dq[row * static_cast<std::size_t>(s.key_dim)] -=
             s.d_out[row * static_cast<std::size_t>(s.value_dim) + static_cast<std::size_t>(v)] *
             o.checkpoints[static_cast<std::size_t>(v)];
     }},
    {"two tokens of v_new swapped",
     [](auto& o, auto& s) {
       std::swap_ranges(o.v_new.begin(), o.v_new.begin() + s.value_dim, o.v_new.begin() + s.value_dim);
     }},
    {"NaN", [](auto& o, auto&) { o.v_new[9] = std::nan(""); }},
};

TEST(Dense, PlantedFaultsAreSeen) {
  const RunOf run(kSmall);
  const oracle::DenseStream stream = run.stream(1);
  const oracle::DenseStates right = run.session.states(1);
  ASSERT_EQ(judge_dense_steps(stream, right, 0x1p-24).failure, "");
  for (const Fault& fault : kFaults) {
    oracle::DenseStates wrong = right;
    fault.plant(wrong, stream);
    EXPECT_NE(judge_dense_steps(stream, wrong, 0x1p-22).failure, "") << fault.name;
  }
}

/// A state kept in io instead of fp32 from chunk to chunk must be seen, however plausible every step looks.
TEST(Dense, AStateHeldInIoIsSeen) {
  const RunOf run(kSmall);
  const oracle::DenseStream stream = run.stream(0);
  oracle::DenseStates wrong = run.session.states(0);
  const auto state = static_cast<std::size_t>(stream.key_dim * stream.value_dim);
  for (int c = 1; c < stream.chunks; ++c)
    for (std::size_t i = 0; i < state; ++i) {
      const auto key = i / static_cast<std::size_t>(stream.value_dim),
                 value = i % static_cast<std::size_t>(stream.value_dim);
      double h = wrong.checkpoints[static_cast<std::size_t>(c - 1) * state + i] *
                 stream.decay[static_cast<std::size_t>((c - 1) * stream.key_dim) + key];
      for (std::size_t t = static_cast<std::size_t>(c - 1) * 64; t < static_cast<std::size_t>(c) * 64; ++t)
        h += stream.kg[t * static_cast<std::size_t>(stream.key_dim) + key] *
             wrong.v_new[t * static_cast<std::size_t>(stream.value_dim) + value];
      wrong.checkpoints[static_cast<std::size_t>(c) * state + i] = oracle::round_to_io(h, stream.io);
    }
  EXPECT_NE(judge_dense_steps(stream, wrong, 0x1p-22).failure, "");
}

/// A wrong transform (here: of the gates) is invisible to every step but not to the token recurrence.
TEST(Dense, WrongInputsAreSeenByTheTokenRecurrence) {
  DenseWorkload workload = kSmall;
  DenseInputs inputs = generate_dense_inputs(workload, threads());
  for (std::uint16_t& x : inputs.w) x = to_bf16(0.8f * from_bf16({x})).bits;
  const std::unique_ptr<Backend> host = make_host_backend();
  DenseSession session(workload, inputs, *host, threads(), {});
  session.restore();
  session.run();
  EXPECT_NE(judge_dense(session, inputs, threads()).failure.find("token recurrence"), std::string::npos);
}

TEST(Dense, TheStoredCaseConforms) {
  for (const ConformRow& row :
       conform_file(SDM_SOURCE_DIR "/tests/golden_dense/kda_dbg.safetensors", nullptr, threads())) {
    EXPECT_EQ(row.verdict, ConformRow::Verdict::equal) << row.variant << " " << row.tensor << ": " << row.detail;
    std::printf("%s %s: %s\n", row.variant.c_str(), row.tensor.c_str(), row.detail.c_str());
  }
}

}  // namespace
}  // namespace sdm
