#include "oracle/bounds.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <limits>

#include "oracle_chunked.h"

namespace sdm {
namespace {

using namespace oracle_test;

std::string describe(const SparseWorkload& w) {
  return fmt::format(
      "P={} T={} C={} W={} R={} D={} slots={} bank={} grad={} value={} weight={} gate={} snapshot={} final={}",
      w.streams, w.tokens, w.chunk, w.writes, w.reads, w.head_dim, w.slots, name_of(w.bank_dtype),
      name_of(w.grad_dtype), name_of(w.value_dtype), name_of(w.weight_dtype), w.gate == Gate::token ? "token" : "write",
      name_of(w.snapshot), w.final_bank_gradient);
}

std::vector<OutputVerdict> judge(const DrawnCase& c, Fault fault, bool round_bank, Parallel& threads) {
  const OracleResult r = run_oracle(c.workload, c.inputs, c.bank, c.d_final, {.round_bank = round_bank}, threads);
  const auto got = Chunked<float>(c, true, fault).run();
  return compare(c.workload, r,
                 {got.reading, got.final_bank, got.d_bank, got.d_k, got.d_q, got.d_v, got.d_beta, got.d_g});
}

void expect_accepted(const DrawnCase& c, Parallel& threads, bool round_bank = true) {
  for (const OutputVerdict& v : judge(c, Fault::none, round_bank, threads)) {
    EXPECT_TRUE(v.passed) << v.detail << "\n" << describe(c.workload);
    if (std::getenv("SDM_SHOW_BOUNDS"))
      fmt::print("{:10} ratio {:.3f} rms {:.3f}\n", v.name, v.worst_ratio, v.rms_error / v.rms_bound);
  }
}

SparseWorkload drawn_shape(Rng& rng) {
  const auto pick = [&](std::initializer_list<int> values) { return values.begin()[rng() % values.size()]; };
  SparseWorkload w;
  w.streams = pick({1, 2, 3});
  w.chunk = pick({2, 3, 8, 16, 33, 64});
  w.tokens = 1 + int(rng() % std::uint64_t(4 * w.chunk));
  w.writes = pick({1, 2, 5, 16, 24});
  w.reads = pick({1, 2, 5, 16, 24});
  w.head_dim = pick({1, 3, 8, 30, 64, 70, 260});
  w.slots = 24 + pick({0, 8, 100, 1000});
  w.bank_dtype = rng() % 3 ? DType::bf16 : DType::f32;
  w.grad_dtype = rng() % 3 ? w.bank_dtype : DType::f32;
  w.value_dtype = rng() % 2 ? DType::bf16 : DType::f32;
  w.weight_dtype = rng() % 4 ? DType::f32 : DType::bf16;
  w.gate = rng() % 2 ? Gate::token : Gate::write;
  w.final_bank_gradient = rng() % 2;
  constexpr SnapshotFormat kFormats[] = {SnapshotFormat::per_entry, SnapshotFormat::raw,  SnapshotFormat::raw,
                                         SnapshotFormat::fp8,       SnapshotFormat::int4, SnapshotFormat::bf16};
  w.snapshot = kFormats[rng() % (w.bank_dtype == DType::f32 ? 6 : 5)];
  return w;
}

TEST(OracleBounds, ChunkedFormInDoubleAgreesWithTheRecurrence) {
  Parallel threads(1);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    Rng rng(seed);
    const SparseWorkload w = drawn_shape(rng);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, describe(w)));
    DrawnCase c = draw_case(w, seed);
    c.workload.weight_dtype = DType::f32;
    const OracleOptions pure{.round_bank = false, .snapshot_round_trip = false, .backward = true, .bounds = false};
    const OracleResult r = run_oracle(c.workload, c.inputs, c.bank, c.d_final, pure, threads);
    const auto got = Chunked<double>(c, false, Fault::none).run();
    const auto expect_near = [](const std::vector<double>& a, const std::vector<double>& b, const char* name) {
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 1e-9 * (1 + std::fabs(a[i]))) << name << i;
    };
    expect_near(r.reading.value, got.reading, "reading");
    expect_near(r.final_bank.value, got.final_bank, "final_bank");
    expect_near(r.d_bank.value, got.d_bank, "d_bank");
    expect_near(r.d_k.value, got.d_k, "d_k");
    expect_near(r.d_q.value, got.d_q, "d_q");
    expect_near(r.d_v.value, got.d_v, "d_v");
    expect_near(r.d_beta.value, got.d_beta, "d_beta");
    expect_near(r.d_g.value, got.d_g, "d_g");
  }
}

/// Inputs that are not spread around zero: what correlates terms, decays hard or not at all.
void make_special(DrawnCase& c, int kind) {
  const auto all_positive = [](std::vector<float>& x) {
    for (float& value : x) value = std::fabs(value);
  };
  if (kind == 1)
    for (auto* x : {&c.bank, &c.inputs.v, &c.inputs.d_reading, &c.d_final}) all_positive(*x);
  if (kind == 2)
    for (float& g : c.inputs.g) g *= 30;
  if (kind == 3) {
    std::fill(c.inputs.g.begin(), c.inputs.g.end(), 0.0f);
    for (float& beta : c.inputs.beta) beta = beta > 0 ? 1.0f : 0.0f;
  }
  if (kind == 4 && c.workload.writes == c.workload.reads) {  // reads what it wrote, with the same strengths
    c.inputs.q_idx = c.inputs.k_idx;
    c.inputs.q = c.inputs.k;
  }
}

TEST(OracleBounds, AcceptRandomShapes) {
  Parallel threads(1);
  const char* first = std::getenv("SDM_FIRST_SEED");
  const char* count = std::getenv("SDM_SEEDS");
  const std::uint64_t begin = first ? std::strtoull(first, nullptr, 10) : 1;
  const std::uint64_t end = begin + (count ? std::strtoull(count, nullptr, 10) : 80);
  for (std::uint64_t seed = begin; seed < end; ++seed) {
    Rng rng(seed);
    const SparseWorkload w = drawn_shape(rng);
    const std::int64_t hot =
        rng() % 3 == 0 ? std::min<std::int64_t>(w.slots, std::max(w.writes, w.reads) + int(rng() % 4)) : 0;
    const bool positive = rng() % 3 == 0, round_bank = rng() % 5 != 0;
    const int special = int(rng() % 6);
    SCOPED_TRACE(
        fmt::format("seed {} hot {} positive {} round {} special {}", seed, hot, positive, round_bank, special));
    DrawnCase c = draw_case(w, seed, hot, positive);
    make_special(c, special);
    expect_accepted(c, threads, round_bank);
  }
}

TEST(OracleBounds, AcceptLargeAndExtremeShapes) {
  Parallel threads(1);
  SparseWorkload long_chunk;
  long_chunk.tokens = 600;
  long_chunk.chunk = 256;
  long_chunk.writes = long_chunk.reads = 32;
  long_chunk.head_dim = 20;
  long_chunk.slots = 512;
  expect_accepted(draw_case(long_chunk, 1), threads);
  expect_accepted(draw_case(long_chunk, 2, 32), threads);  // every token writes and reads every slot
  expect_accepted(draw_case(long_chunk, 3, 40, true), threads);
  SparseWorkload one = long_chunk;
  one.writes = one.reads = one.head_dim = 1;
  one.slots = 2;
  expect_accepted(draw_case(one, 4), threads);
  one.bank_dtype = one.grad_dtype = DType::f32;
  expect_accepted(draw_case(one, 5, 1), threads);
  SparseWorkload many_steps = long_chunk;
  many_steps.chunk = 8;
  many_steps.final_bank_gradient = true;
  expect_accepted(draw_case(many_steps, 6), threads);
  many_steps.snapshot = SnapshotFormat::int4;
  expect_accepted(draw_case(many_steps, 7, 64), threads);
}

SparseWorkload ordinary(DType bank, SnapshotFormat snapshot, Gate gate) {
  SparseWorkload w;
  w.streams = 2;
  w.tokens = 61;
  w.chunk = 16;
  w.writes = w.reads = 16;
  w.head_dim = 64;
  w.slots = 128;
  w.bank_dtype = w.grad_dtype = bank;
  w.snapshot = snapshot;
  w.gate = gate;
  w.final_bank_gradient = true;
  return w;
}

bool rejected(const DrawnCase& c, Fault fault, Parallel& threads) {
  const auto verdicts = judge(c, fault, true, threads);
  return std::any_of(verdicts.begin(), verdicts.end(), [](const OutputVerdict& v) { return !v.passed; });
}

TEST(OracleBounds, AcceptOrdinaryWorkloads) {
  Parallel threads(1);
  for (std::uint64_t seed = 1; seed <= 3; ++seed)
    for (SnapshotFormat format : {SnapshotFormat::raw, SnapshotFormat::fp8, SnapshotFormat::int4})
      for (DType bank : {DType::bf16, DType::f32})
        expect_accepted(draw_case(ordinary(bank, format, seed % 2 ? Gate::token : Gate::write), seed), threads);
}

/// Faults that only change when or how rows are rounded show only where rounding does something.
bool changes_rounding_only(Fault f) {
  return f == Fault::bank_not_rounded || f == Fault::bank_truncated || f == Fault::bank_rounded_twice ||
         f == Fault::grad_not_rounded || f == Fault::grad_rounded_once;
}

TEST(OracleBounds, RejectPlantedFaults) {
  Parallel threads(1);
  for (int i = 1; i < static_cast<int>(Fault::count); ++i) {
    const auto fault = static_cast<Fault>(i);
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      SCOPED_TRACE(fmt::format("fault {} seed {}", i, seed));
      const Gate gate = seed % 2 ? Gate::token : Gate::write;
      // Each of these cases is accepted without a fault: AcceptOrdinaryWorkloads.
      if (fault == Fault::quantized_scale_off) {
        EXPECT_TRUE(rejected(draw_case(ordinary(DType::bf16, SnapshotFormat::fp8, gate), seed), fault, threads));
        EXPECT_TRUE(rejected(draw_case(ordinary(DType::bf16, SnapshotFormat::int4, gate), seed), fault, threads));
        continue;
      }
      EXPECT_TRUE(rejected(draw_case(ordinary(DType::bf16, SnapshotFormat::raw, gate), seed), fault, threads));
      if (changes_rounding_only(fault)) continue;
      EXPECT_TRUE(rejected(draw_case(ordinary(DType::f32, SnapshotFormat::raw, gate), seed), fault, threads));
    }
  }
}

/// The same tokens cut into chunks of another length: rows are rounded at other places and nothing else changes.
TEST(OracleBounds, RejectRoundingAtOtherTokens) {
  Parallel threads(1);
  for (int chunk : {1, 8, 32}) {
    SparseWorkload w = ordinary(DType::bf16, SnapshotFormat::raw, Gate::token);
    w.streams = 1;  // then the padded layouts of all chunk lengths agree
    w.tokens = 64;
    DrawnCase c = draw_case(w, 9);
    EXPECT_FALSE(rejected(c, Fault::none, threads));
    const OracleResult r = run_oracle(w, c.inputs, c.bank, c.d_final, {}, threads);
    c.workload.chunk = chunk;
    const auto got = Chunked<float>(c, true, Fault::none).run();
    for (const OutputVerdict& v : compare(w, r,
                                          {.reading = got.reading,
                                          .final_bank = {},
                                          .d_bank = got.d_bank,
                                          .d_k = {},
                                          .d_q = {},
                                          .d_v = got.d_v,
                                          .d_beta = {},
                                          .d_g = {}}))
      EXPECT_FALSE(v.passed) << v.detail;
  }
}

TEST(OracleBounds, AnomaliesMustMatchInPlace) {
  Parallel threads(1);
  const DrawnCase c = draw_case(ordinary(DType::f32, SnapshotFormat::raw, Gate::token), 5);
  const OracleResult r = run_oracle(c.workload, c.inputs, c.bank, c.d_final, {}, threads);
  std::vector<float> reading(r.reading.value.begin(), r.reading.value.end());
  const auto verdict = [&] {
    return compare(c.workload, r,
                   {.reading = reading,
                    .final_bank = {},
                    .d_bank = {},
                    .d_k = {},
                    .d_q = {},
                    .d_v = {},
                    .d_beta = {},
                    .d_g = {}})[0];
  };
  EXPECT_TRUE(verdict().passed);
  for (float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const float good = std::exchange(reading[1234], bad);
    EXPECT_FALSE(verdict().passed);
    EXPECT_EQ(verdict().anomalies, 1);
    EXPECT_EQ(verdict().worst_coordinate, (std::vector<std::int64_t>{1, 3, 18}));  // 1234 = (1*16 + 3)*64 + 18
    reading[1234] = good;
  }
}

}  // namespace
}  // namespace sdm
