#include "run/dense_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/text.h"
#include "check/bitwise.h"
#include "numerics/f16.h"
#include "run/dense_determinism.h"
#include "run/tensor_io.h"

namespace sdm {
namespace {

using check::failed, check::passed, check::skipped;
using Digests1 = std::map<std::string, std::string>;

/// Elements of state work (T*K*V over streams) that the oracle takes on; seconds on two cores.
constexpr std::int64_t kMostOracleWork = std::int64_t{1} << 31;

bool deterministic(const DenseCheckContext& context, std::string_view tensor) {
  return tensor != "dq" || context.workload.dq != DqMode::atomic || !context.session.backend().device();
}

Digests1 run_again(DenseSession& session, std::uint8_t poison = Arena::kPoisonByte) {
  session.restore(poison);
  session.run();
  return session.digests();
}

/// The first tensor whose digest differs, of those whose bits are promised; empty: all equal.
std::string first_difference(const DenseCheckContext& context, const Digests1& expected, const Digests1& actual) {
  for (const auto& [tensor, digest] : expected)
    if (deterministic(context, tensor) && actual.at(tensor) != digest) return tensor;
  return {};
}

/// A sentence on the first element that differs between two sessions, over the first `bytes` of every output where
/// the shapes differ in the batch alone; empty: equal.
std::string compare_sessions(const DenseCheckContext& context, const DenseSession& expected,
                             const DenseSession& actual) {
  const std::vector<const Tensor*> a = expected.buffers().tensors(), b = actual.buffers().tensors();
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i]->role != Tensor::Role::output || !deterministic(context, a[i]->name)) continue;
    Tensor prefix = *b[i];
    prefix.shape = a[i]->shape;
    const std::vector<std::byte> x = download_tensor(expected.backend(), *a[i]),
                                 y = download_tensor(actual.backend(), prefix);
    if (const auto difference = compare_bits(a[i]->dtype, a[i]->shape, x.data(), y.data()))
      return fmt::format("{}: {}", a[i]->name, difference->sentence());
  }
  return {};
}

CheckResult repeat(const CheckSpec& spec, DenseCheckContext& context) {
  int varied = 0;  // runs whose dq differs, where that is no failure
  for (int run = 1; run <= spec.runs; ++run) {
    const Digests1 again = run_again(context.session);
    if (const std::string where = compare_dense(context, "repeat", DeterminismLevel::run_to_run, again); !where.empty())
      return failed(fmt::format("run {} of {} differs from the first in {}", run, spec.runs, where));
    if (again.contains("dq") && again.at("dq") != context.reference.at("dq")) ++varied;
  }
  const std::string same = fmt::format("{} further runs left the same bits in every tensor", spec.runs);
  if (deterministic(context, "dq")) return passed(same);
  return passed(fmt::format("{} but dq, whose atomic sums {}, as atomics may", same,
                            varied > 0 ? fmt::format("varied in {} of them", varied) : "happened to repeat"));
}

CheckResult guards(DenseCheckContext& context) {
  constexpr std::uint8_t kOtherPoison = 0x5A;
  const std::string before = context.session.inputs_digest();
  const Digests1 again = run_again(context.session, kOtherPoison);
  if (const std::string broken = context.session.arena().first_broken_guard(); !broken.empty()) return failed(broken);
  if (context.session.inputs_digest() != before) return failed("an input tensor was overwritten");
  if (const std::string where = first_difference(context, context.reference, again); !where.empty())
    return failed(fmt::format("{} depends on what its memory held before: some element is never written", where));
  return passed("guard bytes intact, every output element written, inputs unchanged");
}

CheckResult replay(DenseCheckContext& context) {
  if (!context.session.backend().device()) return skipped("needs a GPU: the host run is the replay");
  if (context.session.guarantee() != Guarantee::exact)
    return skipped(fmt::format("{} repeats but is not bit-equal to the replay; the oracle judges it",
                               context.session.resolved().name));
  // The honest replay, whatever was planted in `stages`.
  DenseSession twin(context.workload, context.inputs, context.host, context.threads, {});
  run_again(twin);
  run_again(context.session);
  const std::string difference = compare_sessions(context, twin, context.session);
  context.ledger.note("replay", DeterminismLevel::cpu_equal,
                      difference.empty() ? Difference{} : Difference{"dense_rescan", {"dense_rescan"}});
  if (!difference.empty()) return failed(difference);
  return passed("every output has the bits of the host replay");
}

CheckResult agree(DenseCheckContext& context) {
  Backend& backend = context.session.backend();
  if (!backend.device()) return skipped("needs a GPU: the host has one form of the stage, the replay");
  std::unique_ptr<DenseSession> first;
  std::string names;
  for (const auto* variant : context.stages.dense_rescan.variants) {
    if (variant->guarantee != Guarantee::exact ||
        !variant->refuse(context.session.buffers().params(), *backend.device()).empty())
      continue;
    auto session = std::make_unique<DenseSession>(
        context.workload, context.inputs, backend, context.threads,
        std::map<std::string, std::string>{{"dense_rescan", std::string(variant->name)}}, context.stages);
    run_again(*session);
    names += (names.empty() ? "" : ", ") + std::string(variant->name);
    if (!first) {
      first = std::move(session);
      continue;
    }
    if (const std::string difference = compare_sessions(context, *first, *session); !difference.empty())
      return failed(fmt::format("{}: {}", variant->name, difference));
  }
  return passed(fmt::format("exact variants with the same bits: {}", names));
}

/// The first sequence alone must have the bits that it has within the batch: no output depends on what runs beside it.
std::string batch_difference(DenseCheckContext& context) {
  DenseWorkload alone = context.workload;
  alone.batch = 1;
  const DenseInputs inputs = generate_dense_inputs(alone, context.threads);
  DenseSession session(alone, inputs, context.session.backend(), context.threads,
                       {{"dense_rescan", context.session.resolved().name}}, context.stages);
  run_again(session);
  run_again(context.session);
  return compare_sessions(context, session, context.session);
}

CheckResult invariance(DenseCheckContext& context) {
  const bool on_gpu = context.session.backend().device(), batched = context.workload.batch > 1;
  const bool exact = context.session.guarantee() == Guarantee::exact;
  if (on_gpu)
    if (const std::string difference = dense_launch_difference(context); !difference.empty()) return failed(difference);
  if (exact && batched)
    if (const std::string difference = batch_difference(context); !difference.empty())
      return failed("within the batch: " + difference);
  std::vector<std::string> held;
  if (on_gpu) held.emplace_back("launched as a graph");
  if (on_gpu && exact) held.emplace_back("with other launch geometries");
  if (exact && batched) held.emplace_back("in the first sequence alone and within the batch");
  if (held.empty()) return skipped("one sequence, and launches need a GPU");
  return passed("the same bits " + join(held));
}

/// Bit for bit: checkpoints of chunk 0 are io(h0).
std::string first_checkpoint_difference(const oracle::DenseStream& stream, const oracle::DenseStates& states) {
  for (std::size_t i = 0; i < stream.h0.size(); ++i) {
    const double expected = oracle::round_to_io(stream.h0[i], stream.io);
    // Bits are what is compared: -0 and +0 differ. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    if (std::memcmp(&expected, &states.checkpoints[i], sizeof expected) != 0)
      return fmt::format("checkpoint 0 [{}] is {}, io(h0) is {}", i, states.checkpoints[i], expected);
  }
  return {};
}

CheckResult oracle_check(DenseCheckContext& context) {
  run_again(context.session);
  const DenseOracleVerdict verdict = judge_dense(context.session, context.inputs, context.threads);
  if (!verdict.failure.empty()) return failed(verdict.failure);
  return passed(fmt::format(
      "{} of {} streams: chunk 0 is io(h0); largest error {:.0f} % of the bound of a step, {:.0f} % of a free run's, "
      "{:.0f} % against the token recurrence",
      verdict.streams, context.workload.streams(), 100 * verdict.steps, 100 * verdict.chunks, 100 * verdict.tokens));
}

CheckResult run(const CheckSpec& spec, DenseCheckContext& context) {
  switch (spec.kind) {
    case CheckSpec::Kind::replay: return replay(context);
    case CheckSpec::Kind::oracle: return oracle_check(context);
    case CheckSpec::Kind::repeat: return repeat(spec, context);
    case CheckSpec::Kind::agree: return agree(context);
    case CheckSpec::Kind::invariance: return invariance(context);
    case CheckSpec::Kind::guards: return guards(context);
    case CheckSpec::Kind::bank_restored: return skipped("the dense workload has no bank");
    default: return run_dense_surroundings(spec, context);
  }
}

}  // namespace

CheckResult run_dense_check(const CheckSpec& spec, DenseCheckContext& context) {
  CheckResult result = run(spec, context);
  result.name = name_of(spec.kind);
  return result;
}

CheckResult check_after_timing(DenseCheckContext& context) {
  const std::string where = first_difference(context, context.reference, run_again(context.session));
  CheckResult result = where.empty() ? passed("the bits after timing equal those before")
                                     : failed(where + " differs from the run before timing");
  result.name = "after_timing";
  return result;
}

DenseOracleVerdict judge_dense(const DenseSession& session, const DenseInputs& inputs, Parallel& threads) {
  const DenseWorkload& workload = session.buffers().workload;
  const std::int64_t work = std::int64_t{workload.tokens} * workload.key_dim * workload.value_dim,
                     all = workload.streams();
  DenseOracleVerdict verdict{.streams = std::clamp<std::int64_t>(kMostOracleWork / work, 1, all)};
  std::mutex mutex;
  threads.for_each(verdict.streams, [&](std::int64_t i) {
    const std::int64_t stream = i * all / verdict.streams;
    const oracle::DenseStream s = oracle::dense_stream(workload, inputs, stream);
    std::unique_lock lock(mutex);  // one stream of copies
    const oracle::DenseStates actual = session.states(stream);
    lock.unlock();
    const double unit = oracle::accumulation_unit(session.guarantee() != Guarantee::exact);
    std::string failure = first_checkpoint_difference(s, actual);
    const oracle::DenseVerdict steps = oracle::judge_dense_steps(s, actual, unit);
    const oracle::DenseVerdict chunks = judge_dense_drift(s, actual, run_dense_oracle(s), oracle::DriftSource::flips);
    const oracle::DenseVerdict tokens = judge_dense_drift(s, actual, oracle::run_dense_tokens(workload, s.h0, stream),
                                                          oracle::DriftSource::io_everywhere);
    for (const auto& [name, one] :
         {std::pair{"steps", &steps}, std::pair{"free run", &chunks}, std::pair{"token recurrence", &tokens}})
      if (failure.empty() && !one->failure.empty()) failure = fmt::format("{}: {}", name, one->failure);
    lock.lock();
    verdict.steps = std::max(verdict.steps, steps.worst_ratio);
    verdict.chunks = std::max(verdict.chunks, chunks.worst_ratio);
    verdict.tokens = std::max(verdict.tokens, tokens.worst_ratio);
    if (!failure.empty() && verdict.failure.empty()) verdict.failure = fmt::format("stream {}: {}", stream, failure);
  });
  return verdict;
}

}  // namespace sdm
