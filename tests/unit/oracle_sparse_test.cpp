#include "oracle/sparse.h"

#include <gtest/gtest.h>

#include <cmath>

#include "oracle_support.h"

namespace sdm {
namespace {

using namespace oracle_test;

constexpr OracleOptions kPure{.round_bank = false, .snapshot_round_trip = false, .backward = true, .bounds = false};

SparseWorkload tiny(Rng& rng) {
  SparseWorkload w;
  w.streams = 1 + int(rng() % 2);
  w.chunk = 2 + int(rng() % 4);
  w.tokens = 1 + int(rng() % 9);
  w.slots = 3 + int(rng() % 6);
  w.writes = 1 + int(rng() % std::uint64_t(w.slots));
  w.reads = 1 + int(rng() % std::uint64_t(w.slots));
  w.head_dim = 1 + int(rng() % 3);
  w.bank_dtype = w.grad_dtype = DType::f32;
  w.gate = rng() % 2 ? Gate::token : Gate::write;
  w.final_bank_gradient = rng() % 2;
  return w;
}

/// sum(d_reading * reading) + sum(d_final * final bank)
double loss(const DrawnCase& c, Parallel& threads) {
  OracleOptions options = kPure;
  options.backward = false;
  const OracleResult r = run_oracle(c.workload, c.inputs, c.bank, {}, options, threads);
  double sum = 0;
  for (std::size_t i = 0; i < r.reading.value.size(); ++i) sum += c.inputs.d_reading[i] * r.reading.value[i];
  for (std::size_t i = 0; i < c.d_final.size(); ++i) sum += c.d_final[i] * r.final_bank.value[i];
  return sum;
}

/// Central differences over every element of one input. Steps are taken in float, so their true size is used.
void expect_gradient(DrawnCase& c, std::vector<float>& input, const std::vector<double>& gradient, const char* name,
                     Parallel& threads) {
  ASSERT_EQ(input.size(), gradient.size()) << name;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const float at = input[i];
    const float high = at + 0x1p-10f, low = at - 0x1p-10f;
    input[i] = high;
    const double above = loss(c, threads);
    input[i] = low;
    const double below = loss(c, threads);
    input[i] = at;
    const double difference = (above - below) / (static_cast<double>(high) - low);
    EXPECT_NEAR(gradient[i], difference, 2e-5 * (1 + std::fabs(difference))) << name << " " << i;
  }
}

TEST(OracleSparse, GradientsMatchFiniteDifferences) {
  Parallel threads(1);
  for (std::uint64_t seed = 1; seed <= 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    DrawnCase c = draw_case(tiny(rng), seed);
    const OracleResult r = run_oracle(c.workload, c.inputs, c.bank, c.d_final, kPure, threads);
    expect_gradient(c, c.bank, r.d_bank.value, "bank", threads);
    // A padding token's entries are not part of the recurrence; their differences are zero, as their gradients are.
    expect_gradient(c, c.inputs.k, r.d_k.value, "k", threads);
    expect_gradient(c, c.inputs.q, r.d_q.value, "q", threads);
    expect_gradient(c, c.inputs.v, r.d_v.value, "v", threads);
    expect_gradient(c, c.inputs.beta, r.d_beta.value, "beta", threads);
    expect_gradient(c, c.inputs.g, r.d_g.value, "g", threads);
  }
}

/// One stream, two slots, D = 1, W = R = 1: small enough to do on paper.
DrawnCase by_hand() {
  SparseWorkload w;
  w.streams = 1;
  w.tokens = 3;
  w.chunk = 2;
  w.writes = w.reads = 1;
  w.head_dim = 1;
  w.slots = 2;
  DrawnCase c = draw_case(w, 1);
  c.bank = {1.0f, 4.0f};
  c.inputs.k_idx = {0, 0, 1, 0};
  c.inputs.q_idx = {0, 1, 0, 0};
  c.inputs.k = {0.5f, 1.0f, 2.0f, 0.0f};
  c.inputs.q = {1.0f, 1.0f, 2.0f, 0.0f};
  c.inputs.g = {0.0f, 0.0f, 0.0f, 0.0f};
  c.inputs.v = {2.5f, 0.0f, 9.0f, 0.0f};
  c.inputs.beta = {0.5f, 1.0f, 0.25f, 0.0f};
  c.inputs.d_reading = {1.0f, 1.0f, 1.0f, 0.0f};
  return c;
}

TEST(OracleSparse, ForwardByHand) {
  Parallel threads(1);
  const DrawnCase c = by_hand();
  const OracleResult r = run_oracle(c.workload, c.inputs, c.bank, {}, kPure, threads);
  // t0: retrieved .5, delta .5*(2.5-.5) = 1, M0 = 1.5; read M0. t1: retrieved 1.5, delta -1.5, M0 = 0; read M1 = 4.
  // t2: retrieved 8, delta .25, M1 = 4.5; read 2*M0 = 0.
  EXPECT_EQ(r.retrieved, (std::vector<double>{0.5, 1.5, 8, 0}));
  EXPECT_EQ(r.delta, (std::vector<double>{1, -1.5, 0.25, 0}));
  EXPECT_EQ(r.reading.value, (std::vector<double>{1.5, 4, 0, 0}));
  EXPECT_EQ(r.final_bank.value, (std::vector<double>{0, 4.5}));
  // d_reading = 1: t2 leaves G0 = 2. t1: G1 = 1; d_delta = G0 = 2, d_retrieved = -2, G0 = 2 - 2 = 0, d_k = 2*(-1.5)
  // + (-2)*1.5. t0: G0 = 1; d_delta = .5, d_retrieved = -.25, G0 = 1 - .125.
  EXPECT_EQ(r.d_bank.value, (std::vector<double>{0.875, 1}));
  EXPECT_EQ(r.d_v.value, (std::vector<double>{0.25, 2, 0, 0}));
  EXPECT_EQ(r.d_beta.value, (std::vector<double>{1, -3, 0, 0}));
  EXPECT_EQ(r.d_k.value, (std::vector<double>{0.75, -6, 0, 0}));
  EXPECT_EQ(r.d_q.value, (std::vector<double>{1.5, 4, 0, 0}));
  EXPECT_EQ(r.d_g.value, (std::vector<double>{0.875, 0, 0, 0}));
}

TEST(OracleSparse, RoundsRowsAtChunkEndsOnly) {
  Parallel threads(1);
  DrawnCase c = by_hand();
  c.inputs.v[0] = 2.5f + 0x1p-8f;  // delta = 1 + 2^-9 : M0 = 1.5 + 2^-10 inside the chunk, 1.5 if it were rounded there
  c.inputs.beta[1] = 0.0f;         // t1 writes nothing; its chunk ends and M0 becomes 1.5
  c.inputs.q_idx = {0, 0, 0, 0};
  OracleOptions options = kPure;
  options.round_bank = true;
  const OracleResult r = run_oracle(c.workload, c.inputs, c.bank, {}, options, threads);
  EXPECT_EQ(r.reading.value, (std::vector<double>{1.5 + 0x1p-10, 1.5 + 0x1p-10, 3, 0}));
  EXPECT_EQ(r.final_bank.value, (std::vector<double>{1.5, 4.5}));
}

TEST(OracleSparse, RoundingToNearestEven) {
  using oracle::round_to;
  EXPECT_EQ(round_to(1 + 0x1p-8, DType::bf16), 1.0);             // tie, even below
  EXPECT_EQ(round_to(1 + 3 * 0x1p-8, DType::bf16), 1 + 0x1p-6);  // tie, even above
  EXPECT_EQ(round_to(1 + 0x1p-8 + 0x1p-40, DType::bf16),
            1 + 0x1p-7);                             // a double rounding by way of float would miss it
  EXPECT_EQ(round_to(-0x1p-134, DType::bf16), 0.0);  // subnormals: quantum 2^-133, tie to even
  EXPECT_EQ(round_to(3 * 0x1p-134, DType::bf16), 0x1p-132);
  EXPECT_EQ(round_to(0x1.ffp127, DType::bf16), HUGE_VAL);
  EXPECT_TRUE(std::isnan(round_to(NAN, DType::bf16)));
  EXPECT_EQ(oracle::spacing(1.5, DType::bf16), 0x1p-7);
  EXPECT_EQ(oracle::round_e4m3(1000), 448);
  EXPECT_EQ(oracle::round_e4m3(17), 16);
  EXPECT_EQ(oracle::round_e4m3(-0x1p-10), 0);
  EXPECT_EQ(oracle::round_e4m3(3 * 0x1p-10), 0x1p-8);
  EXPECT_EQ(oracle::round_int4(2.5), 2);
  EXPECT_EQ(oracle::round_int4(-9), -8);
}

TEST(OracleSparse, ResultsDoNotDependOnThreads) {
  SparseWorkload w;
  w.streams = 5;
  w.tokens = 37;
  w.chunk = 8;
  w.writes = w.reads = 4;
  w.head_dim = 70;
  w.slots = 32;
  const DrawnCase c = draw_case(w, 3);
  Parallel one(1), many(4);
  const OracleResult a = run_oracle(w, c.inputs, c.bank, c.d_final, {}, one);
  const OracleResult b = run_oracle(w, c.inputs, c.bank, c.d_final, {}, many);
  EXPECT_EQ(a.reading.value, b.reading.value);
  EXPECT_EQ(a.d_bank.value, b.d_bank.value);
  EXPECT_EQ(a.d_g.value, b.d_g.value);
  EXPECT_EQ(a.d_k.sigma, b.d_k.sigma);
}

}  // namespace
}  // namespace sdm
