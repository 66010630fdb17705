#include "oracle/bounds.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>

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
  w.head_dim = pick({1, 3, 8, 30, 64, 70});
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

TEST(OracleBounds, AcceptRandomShapes) {
  Parallel threads(1);
  const char* first = std::getenv("SDM_FIRST_SEED");
  const char* count = std::getenv("SDM_SEEDS");
  const std::uint64_t begin = first ? std::strtoull(first, nullptr, 10) : 1;
  const std::uint64_t end = begin + (count ? std::strtoull(count, nullptr, 10) : 60);
  for (std::uint64_t seed = begin; seed < end; ++seed) {
    Rng rng(seed);
    const SparseWorkload w = drawn_shape(rng);
    const std::int64_t hot = rng() % 3 == 0 ? std::max(w.writes, w.reads) + int(rng() % 4) : 0;
    const bool positive = rng() % 3 == 0, round_bank = rng() % 5 != 0;
    SCOPED_TRACE(fmt::format("seed {} hot {} positive {} round {}", seed, hot, positive, round_bank));
    expect_accepted(draw_case(w, seed, hot, positive), threads, round_bank);
  }
}

}  // namespace
}  // namespace sdm
