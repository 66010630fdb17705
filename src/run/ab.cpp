#include "run/ab.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <new>

#include "base/error.h"
#include "base/statistics.h"
#include "check/check.h"
#include "numerics/fp.h"
#include "report/sample_stats.h"
#include "run/sparse_session.h"

namespace sdm {
namespace {

using Clock = std::chrono::steady_clock;

/// Counts the calls of one stage.
struct Calls final : StageObserver {
  explicit Calls(std::string_view wanted_) : wanted(wanted_) {}
  void after(const StageCall& call) override { count += call.stage == wanted ? 1 : 0; }
  std::string_view wanted;
  int count = 0;
};

struct StageWork {
  std::function<void()> run;
  int calls = 0;
};

/// One form of the workload on the device.
class Side {
 public:
  Side(const Case& c, const SparseInputs& inputs, const AbEnvironment& environment)
      : backend_(environment.backend),
        session_(std::get<SparseWorkload>(c.workload), inputs, environment.backend, environment.threads, c.variants) {
    // `auto` would launch sides with and without a named variant in different ways.
    session_.set_launch(c.launch == LaunchMode::automatic ? LaunchMode::graph : c.launch);
  }

  /// What does not need a clock: digests, variants, recordings.
  void prepare(CaseResult& result) {
    const StepDigests digests = run_step(session_);
    result.digests = digests.forward;
    for (const auto& [stage, tensors] : digests.backward) result.digests[stage].insert(tensors.begin(), tensors.end());
    result.launch = session_.launch_name();
    result.variants = session_.resolved();
    result.peak_memory_bytes = session_.arena().bytes();
    result.geometry = {{"gather_groups", session_.buffers().gather_groups},
                       {"gather_grad_groups", session_.buffers().gather_grad_groups},
                       {"contract_version", kContractVersion}};
  }

  double sample_pass(Pass pass, bool cold) {
    session_.restore_banks();
    if (pass == Pass::backward) session_.run(Pass::forward);
    return timed([&] { session_.run(pass); }, cold);
  }

  /// The launches of one stage as work to be timed.
  StageWork stage_work(Pass pass, std::string_view stage) {
    Calls calls(stage);
    session_.run_only(pass, stage, &calls);
    return {recorded([this, pass, stage] { session_.run_only(pass, stage, nullptr); }), calls.count};
  }

  double timed(const std::function<void()>& work, bool cold) {
    if (cold) backend_.flush_l2();
    backend_.synchronize();
    backend_.reset_marks();
    const int begin = backend_.mark();
    work();
    return backend_.between_us(begin, backend_.mark());
  }

 private:
  /// A replay of what `body` launches where the case runs recorded, else `body`.
  std::function<void()> recorded(std::function<void()> body) {
    if (!session_.recorded()) return body;
    const std::shared_ptr<Recording> recording = backend_.record(body);
    if (!recording) return body;
    return [recording] { recording->replay(); };
  }

  Backend& backend_;
  SparseSession session_;
};

class Interleaver {
 public:
  Interleaver(const Case& a, const Case& b, const AbEnvironment& environment, std::array<CaseResult*, 2> results)
      : env_(environment),
        timing_(a.timing),
        results_(results),
        inputs_(generate_inputs(std::get<SparseWorkload>(a.workload), environment.threads)),
        sides_{std::make_unique<Side>(a, inputs_, environment), std::make_unique<Side>(b, inputs_, environment)} {
    if (env_.quick) {
      timing_.min_samples = std::min(timing_.min_samples, 3);
      timing_.max_seconds = std::min(timing_.max_seconds, 1.0);
    }
    cold_ = env_.backend.device() && timing_.l2 != TimingSpec::L2::hot;
  }

  void run() {
    for (std::size_t i = 0; i < 2; ++i) {
      phase("run");
      sides_[i]->prepare(*results_[i]);
      results_[i]->status = CaseStatus::ok;
    }
    for (const Pass pass : {Pass::forward, Pass::backward}) time_pass(pass);
    if (timing_.per_stage) registry().each([&](const auto& stage) { time_stage(stage.name); });
  }

 private:
  void phase(std::string_view what) const {
    if (env_.phase) env_.phase(what);
  }
  bool stopped() const { return env_.stop && env_.stop(); }
  std::string l2() const { return !env_.backend.device() ? "host" : cold_ ? "cold" : "hot"; }

  /// Samples both sides in turn until both are steady or the time is up. The first of a pair changes with every pair.
  std::array<SampleStats, 2> alternate(const std::function<double(std::size_t)>& sample, double seconds) {
    std::array<std::vector<double>, 2> samples;
    std::array<int, 2> throttled{};
    const auto start = Clock::now();
    const auto steady = [&] {
      return std::all_of(samples.begin(), samples.end(), [&](const auto& s) {
        return static_cast<int>(s.size()) >= timing_.min_samples && summarize(s).relative_iqr() <= timing_.rel_iqr;
      });
    };
    for (int i = 0; i < timing_.warmup; ++i) sample(0), sample(1);
    bool converged = false;
    for (std::size_t pair = 0; !converged; ++pair) {
      for (const std::size_t turn : {0u, 1u}) {
        const std::size_t side = (pair + turn) % 2;
        samples[side].push_back(sample(side));
        throttled[side] += env_.backend.clock_share() < timing_.clock_threshold;
      }
      converged = steady();
      if (stopped() || std::chrono::duration<double>(Clock::now() - start).count() >= seconds) break;
    }
    return {sample_stats(std::move(samples[0]), throttled[0], converged),
            sample_stats(std::move(samples[1]), throttled[1], converged)};
  }

  void time_pass(Pass pass) {
    if (stopped()) return;
    phase(pass == Pass::forward ? "time forward" : "time backward");
    const auto times =
        alternate([&](std::size_t side) { return sides_[side]->sample_pass(pass, cold_); }, timing_.max_seconds);
    for (std::size_t i = 0; i < 2; ++i)
      results_[i]->passes.push_back({.name = std::string(name_of(pass)), .l2 = l2(), .time = times[i]});
  }

  void time_stage(std::string_view stage) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      if (stopped()) return;
      const StageWork a = sides_[0]->stage_work(pass, stage), b = sides_[1]->stage_work(pass, stage);
      if (a.calls == 0 || b.calls == 0) continue;
      phase("time stages");
      const auto times =
          alternate([&](std::size_t side) { return sides_[side]->timed((side == 0 ? a : b).run, cold_); },
                    std::max(0.05, timing_.max_seconds / 10));
      for (std::size_t i = 0; i < 2; ++i)
        results_[i]->stages.push_back({.name = std::string(stage),
                                       .pass = std::string(name_of(pass)),
                                       .l2 = l2(),
                                       .calls = (i == 0 ? a : b).calls,
                                       .time = times[i]});
    }
  }

  const AbEnvironment& env_;
  TimingSpec timing_;
  std::array<CaseResult*, 2> results_;
  SparseInputs inputs_;
  std::array<std::unique_ptr<Side>, 2> sides_;
  bool cold_ = false;
};

CaseResult describe(const Case& c, const Backend& backend) {
  CaseResult result;
  result.id = c.id, result.name = c.name, result.params = c.params;
  const DeviceInfo info = backend.info();
  result.device = info.uuid.empty() ? info.kind : info.uuid;
  return result;
}

}  // namespace

std::pair<CaseResult, CaseResult> run_interleaved(const Case& a, const Case& b, const AbEnvironment& environment) {
  SDM_REQUIRE(a.params == b.params, "{} and {} are not one workload", a.id, b.id);
  std::pair<CaseResult, CaseResult> results{describe(a, environment.backend), describe(b, environment.backend)};
  const auto both = [&](CaseStatus status, const std::string& reason) {
    for (CaseResult* result : {&results.first, &results.second}) result->status = status, result->reason = reason;
  };
  const auto start = Clock::now();
  try {
    if (std::holds_alternative<SparseWorkload>(a.workload))
      Interleaver(a, b, environment, {&results.first, &results.second}).run();
    else
      both(CaseStatus::skipped, "only sparse cases run interleaved");
    if (environment.stop && environment.stop()) both(CaseStatus::not_run, "interrupted");
  } catch (const Unsupported& unsupported) {
    both(CaseStatus::skipped, unsupported.what());
  } catch (const CudaError& error) {
    if (error.sticky) throw;
    both(error.out_of_memory ? CaseStatus::oom : CaseStatus::error, error.what());
  } catch (const std::bad_alloc&) {
    both(CaseStatus::oom, "host memory is exhausted");
  } catch (const UserError& error) {
    both(CaseStatus::error, error.what());
  }
  results.first.wall_seconds = results.second.wall_seconds =
      std::chrono::duration<double>(Clock::now() - start).count() / 2;
  return results;
}

std::optional<double> relative_spread(const CaseResult& a, const CaseResult& b) {
  std::optional<double> spread;
  const auto widen = [&](const auto& one, const auto& two) {
    for (std::size_t i = 0; i < std::min(one.size(), two.size()); ++i) {
      const double x = one[i].time.median_us, y = two[i].time.median_us;
      if (one[i].time.samples_us.empty() || two[i].time.samples_us.empty() || x <= 0) continue;
      spread = std::max(spread.value_or(0), std::abs(y - x) / x);
    }
  };
  widen(a.passes, b.passes);
  widen(a.stages, b.stages);
  return spread;
}

}  // namespace sdm
