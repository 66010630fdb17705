#include "run/dense_determinism.h"

#include <fmt/format.h>

#include <memory>

#include "base/error.h"
#include "base/statistics.h"

namespace sdm {
namespace {

using check::failed, check::passed, check::skipped;

CheckResult poison(DenseCheckContext& context) {
  constexpr std::uint8_t kPatterns[] = {0x00, 0x5A, 0x80, 0xAA, 0x7F, 0xFE};
  for (const std::uint8_t pattern : kPatterns)
    if (const std::string where =
            compare_dense(context, "poison", DeterminismLevel::run_to_run, run_dense_again(context.session, pattern));
        !where.empty())
      return failed(
          fmt::format("with 0x{:02x} in every byte of the outputs before the run, {} changes", pattern, where));
  return passed(fmt::format("{} other contents of output memory changed no bit", std::size(kPatterns)));
}

CheckResult repeat_beside(LoadKind kind, const CheckSpec& spec, DenseCheckContext& context) {
  Backend& backend = context.session.backend();
  if (kind == LoadKind::half_device && !backend.device()) return skipped("needs a GPU");
  const std::unique_ptr<Load> load = backend.start_load(kind);
  if (!load) return skipped("there is no such load for this device");
  for (int run = 1; run <= spec.runs; ++run) {
    const std::map<std::string, std::string> again = run_dense_again(context.session);
    if (!load->lasting())
      return failed(fmt::format("the load did not last ({}): nothing was proven", load->describe()));
    const std::string where =
        compare_dense(context, std::string(name_of(spec.kind)), DeterminismLevel::run_to_run, again);
    if (!where.empty())
      return failed(fmt::format("run {} of {} differs from the undisturbed one in {}", run, spec.runs, where));
  }
  return passed(fmt::format("{} runs left the undisturbed run's bits; {}", spec.runs, load->describe()));
}

/// Holds a block of memory, so that a second session lies elsewhere.
CheckResult fragmented(DenseCheckContext& context) {
  Backend& backend = context.session.backend();
  const auto release = [&backend](void* memory) { backend.release(memory); };
  const std::unique_ptr<void, decltype(release)> block(backend.allocate((std::size_t{3} << 20) + 256), release);
  DenseSession session(context.workload, context.inputs, backend, context.threads,
                       {{"dense_rescan", context.session.resolved().name}});
  const std::string where =
      compare_dense(context, "fragmented", DeterminismLevel::run_to_run, run_dense_again(session));
  return where.empty() ? passed("same bits at another place in memory")
                       : failed(fmt::format("at another place in memory {} changes", where));
}

CheckResult process(DenseCheckContext& context) {
  if (!context.fresh_process) return skipped("no fresh process can be started from here");
  try {
    const Digests fresh = context.fresh_process();
    const auto stage = fresh.find("dense_rescan");
    if (stage == fresh.end()) return failed("the fresh process left no digests");
    const std::string where = compare_dense(context, "process", DeterminismLevel::run_to_run, stage->second);
    return where.empty() ? passed("a fresh process left the same bits")
                         : failed(fmt::format("a fresh process leaves other bits in {}", where));
  } catch (const UserError& error) {
    return failed(error.what());
  }
}

double median_us(DenseSession& a, DenseSession& b, std::vector<double>& other) {
  constexpr int kSamples = 9;
  std::vector<double> mine;
  const auto sample = [](DenseSession& session) {
    Backend& backend = session.backend();
    backend.synchronize();
    backend.reset_marks();
    const int begin = backend.mark();
    session.run();
    return backend.between_us(begin, backend.mark());
  };
  sample(a), sample(b);
  for (int i = 0; i < kSamples; ++i) {
    mine.push_back(sample(a));
    other.push_back(sample(b));
  }
  return summarize(mine).median;
}

/// The same case with dq summed in tile order and by atomics.
CheckResult baselines(const CheckSpec& spec, DenseCheckContext& context) {
  if (!context.session.backend().device()) return skipped("needs a GPU: the host has one order of dq");
  if (context.workload.dq == DqMode::off) return skipped("the case has no dq, the one output with an unordered form");
  DenseWorkload ordered = context.workload, atomic = context.workload;
  ordered.dq = DqMode::ordered, atomic.dq = DqMode::atomic;
  const std::string variant = context.session.resolved().name;
  const std::map<std::string, std::string> variants = {{"dense_rescan", variant}};
  Backend& backend = context.session.backend();
  DenseSession with_order(ordered, context.inputs, backend, context.threads, variants),
      without(atomic, context.inputs, backend, context.threads, variants);
  const auto first = run_dense_again(without);
  int varied_in = 0;
  for (int run = 1; run <= spec.runs && varied_in == 0; ++run)
    if (run_dense_again(without) != first) varied_in = run;
  run_dense_again(with_order);
  if (context.price) {
    std::vector<double> atomic_us;
    const double ordered_us = median_us(with_order, without, atomic_us);
    context.ledger.note_price({.stage = "dense_rescan",
                               .pass = "backward",
                               .deterministic = variant + " (dq ordered)",
                               .baseline = variant + " (dq atomic)",
                               .deterministic_us = ordered_us,
                               .baseline_us = summarize(atomic_us).median,
                               .varied = varied_in > 0});
  }
  const std::string saw = varied_in > 0 ? fmt::format("varies (run {})", varied_in)
                                        : fmt::format("happened to repeat over {} runs", spec.runs);
  context.ledger.note_alternative({.stage = "dense_rescan",
                                   .variant = variant + " (dq atomic)",
                                   .chosen = false,
                                   .level = DeterminismLevel::not_guaranteed,
                                   .reason = "approximate by design; " + saw});
  return passed(fmt::format("dq by atomics {}", saw));
}

}  // namespace

std::map<std::string, std::string> run_dense_again(DenseSession& session, std::uint8_t poison_byte) {
  session.restore(poison_byte);
  session.run();
  return session.digests();
}

std::string compare_dense(DenseCheckContext& context, const std::string& name, DeterminismLevel level,
                          const std::map<std::string, std::string>& again) {
  const bool unordered = context.workload.dq == DqMode::atomic && context.session.backend().device();
  Difference found;
  std::string where;
  for (const auto& [tensor, digest] : context.reference) {
    if (again.at(tensor) == digest) continue;
    if (found.where.empty()) found = {"dense_rescan/" + tensor, {"dense_rescan"}};
    if (where.empty() && !(unordered && tensor == "dq")) where = tensor;
  }
  context.ledger.note(name, level, found);
  return where;
}

std::string dense_launch_difference(DenseCheckContext& context) {
  DenseSession& session = context.session;
  constexpr Geometry kGeometries[] = {{.tile = 16}, {.tile = 32}, {.tile = 64, .depth = 1}};
  const Geometry own = session.geometry();
  for (const Geometry& geometry : kGeometries) {
    if (session.guarantee() != Guarantee::exact) break;  // from run to run is all that the others promise
    session.set_geometry(geometry);
    const std::string where =
        compare_dense(context, "invariance (geometry)", DeterminismLevel::geometry, run_dense_again(session));
    session.set_geometry(own);
    if (!where.empty()) return fmt::format("with tile {}, depth {} {} changes", geometry.tile, geometry.depth, where);
  }
  const std::unique_ptr<Recording> recording = session.backend().record([&] { session.run(); });
  if (!recording) return {};
  session.restore();
  recording->replay();
  const std::string where =
      compare_dense(context, "invariance (launch)", DeterminismLevel::launch_mode, session.digests());
  return where.empty() ? "" : fmt::format("launched as a graph {} changes", where);
}

CheckResult run_dense_surroundings(const CheckSpec& spec, DenseCheckContext& context) {
  switch (spec.kind) {
    case CheckSpec::Kind::poison: return poison(context);
    case CheckSpec::Kind::disturbed: return repeat_beside(LoadKind::disturbing, spec, context);
    case CheckSpec::Kind::half_device: return repeat_beside(LoadKind::half_device, spec, context);
    case CheckSpec::Kind::fragmented: return fragmented(context);
    case CheckSpec::Kind::process: return process(context);
    case CheckSpec::Kind::baselines: return baselines(spec, context);
    default: throw InternalError("no such check of a dense case");
  }
}

}  // namespace sdm
