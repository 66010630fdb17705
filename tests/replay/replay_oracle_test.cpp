// The chunked replay against the token-by-token oracle, over random workloads: outputs and all gradients within the
// derived bounds, the bank rolled back, guards intact.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

#include "check/check.h"

namespace sdm {
namespace {

constexpr unsigned kSeed = 4711;

template <typename T>
T one_of(std::mt19937& random, std::initializer_list<T> choices) {
  return choices.begin()[random() % choices.size()];
}

SnapshotFormat random_snapshot(std::mt19937& random, DType bank) {
  using enum SnapshotFormat;
  return bank == DType::f32 ? one_of(random, {per_entry, raw, bf16, fp8, int4})
                            : one_of(random, {per_entry, raw, fp8, int4});
}

SparseWorkload random_workload(std::mt19937& random) {
  using Kind = Distribution::Kind;
  SparseWorkload w;
  w.streams = 1 + static_cast<int>(random() % 3);
  w.tokens = 1 + static_cast<int>(random() % 40);
  w.chunk = one_of(random, {2, 3, 7, 8, 16, 33, 64});
  w.writes = 1 + static_cast<int>(random() % 9);
  w.reads = 1 + static_cast<int>(random() % 9);
  w.head_dim = one_of(random, {1, 2, 3, 5, 20, 30, 64, 120, 131, 132, 200, 260});
  w.slots = std::max(w.writes, w.reads) + static_cast<int>(random() % 40);
  w.bank_dtype = one_of(random, {DType::f32, DType::bf16});
  w.grad_dtype = one_of(random, {DType::f32, w.bank_dtype});
  w.value_dtype = one_of(random, {DType::f32, DType::bf16});
  w.weight_dtype = one_of(random, {DType::f32, DType::bf16});
  w.index_dtype = one_of(random, {DType::i32, DType::i64});
  w.gate = one_of(random, {Gate::token, Gate::write});
  w.snapshot = random_snapshot(random, w.bank_dtype);
  w.final_bank_gradient = random() % 2 != 0;
  w.distribution.kind = one_of(random, {Kind::uniform, Kind::zipf, Kind::hot, Kind::sequential, Kind::product_key});
  w.distribution.hot_slots = std::max(w.writes, w.reads);
  w.seed = random();
  w.gather_saves = w.snapshot == SnapshotFormat::raw && random() % 2 != 0;
  w.gradient_copy = random() % 2 != 0;
  return w;
}

std::string describe(const SparseWorkload& w) {
  return fmt::format(
      "streams {} tokens {} chunk {} writes {} reads {} head_dim {} slots {} bank {} grad {} value {} weight {} index "
      "{} "
      "gate {} snapshot {} gather_saves {} gradient_copy {} final {} distribution {} seed {}",
      w.streams, w.tokens, w.chunk, w.writes, w.reads, w.head_dim, w.slots, name_of(w.bank_dtype),
      name_of(w.grad_dtype), name_of(w.value_dtype), name_of(w.weight_dtype), name_of(w.index_dtype),
      static_cast<int>(w.gate), name_of(w.snapshot), w.gather_saves, w.gradient_copy, w.final_bank_gradient,
      static_cast<int>(w.distribution.kind), w.seed);
}

void expect_all_checks(const SparseWorkload& workload, Parallel& threads, Backend& host) {
  SCOPED_TRACE(describe(workload));
  const SparseInputs inputs = generate_inputs(workload, threads);
  const std::map<std::string, std::string> variants;
  SparseSession session(workload, inputs, host, threads, variants);
  const StepDigests reference = run_step(session);
  CheckContext context{workload, inputs, variants, LaunchMode::automatic, session,
                       host,     host,   threads,  reference.forward,     reference.backward};
  using Kind = CheckSpec::Kind;
  for (const Kind kind : {Kind::oracle, Kind::guards, Kind::bank_restored}) {
    const CheckResult result = run_check({.kind = kind}, context);
    EXPECT_EQ(result.status, CheckResult::Status::passed) << result.name << ": " << result.detail;
  }
}

TEST(ReplayAndOracle, AgreeOnRandomWorkloads) {
  std::mt19937 random(kSeed);
  Parallel threads;
  const std::unique_ptr<Backend> host = make_host_backend();
  for (int round = 0; round < 60 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(fmt::format("seed {} round {}", kSeed, round));
    expect_all_checks(random_workload(random), threads, *host);
  }
}

TEST(ReplayAndOracle, AgreeWhereEveryEntryFallsOnFewSlots) {
  std::mt19937 random(kSeed + 1);
  Parallel threads;
  const std::unique_ptr<Backend> host = make_host_backend();
  for (const SnapshotFormat format : {SnapshotFormat::per_entry, SnapshotFormat::raw, SnapshotFormat::fp8}) {
    SparseWorkload w = random_workload(random);
    w.tokens = 50, w.chunk = 20, w.writes = w.reads = 6, w.slots = 6;
    w.distribution.kind = Distribution::Kind::uniform;
    w.bank_dtype = w.grad_dtype = DType::f32;
    w.snapshot = format;
    expect_all_checks(w, threads, *host);
  }
}

}  // namespace
}  // namespace sdm
