#include "run/dense_runner.h"

#include "measure/protocol.h"
#include "numerics/fp.h"
#include "run/case_support.h"
#include "run/dense_checks.h"
#include "run/dense_measure.h"

namespace sdm {
namespace {

class DenseCaseRunner {
 public:
  DenseCaseRunner(const Case& c, const CaseEnvironment& environment, CaseResult& result)
      : case_(c),
        workload_(std::get<DenseWorkload>(c.workload)),
        env_(environment),
        result_(result),
        deadline_(c.timing.case_timeout_seconds, environment.stop) {}

  void run() {
    require_memory(DenseSession::bytes_for(workload_), env_.backend.free_memory());
    phase("generate");
    inputs_ = generate_dense_inputs(workload_, env_.threads);
    DenseSession session(workload_, inputs_, env_.backend, env_.threads, case_.variants);
    result_.variants["dense_rescan"] = session.resolved();
    result_.peak_memory_bytes = session.arena().bytes();
    result_.geometry = {{"contract_version", kContractVersion}, {"dq_tile", dense_rescan::kTile}};
    if (env_.profile) return profile(session);
    phase("run");
    session.restore();
    session.run();
    result_.digests["dense_rescan"] = session.digests();
    result_.status = CaseStatus::ok;
    if (env_.checks) run_checks(session);
    if (env_.timing && case_.timed && result_.status == CaseStatus::ok) time(session);
  }

 private:
  void phase(std::string_view what) const {
    deadline_.check();
    if (env_.phase) env_.phase(what);
  }

  DenseCheckContext check_context(DenseSession& session) const {
    return {workload_, inputs_, session, env_.host, env_.threads, result_.digests["dense_rescan"]};
  }

  void run_checks(DenseSession& session) {
    DenseCheckContext context = check_context(session);
    context.price = env_.timing || env_.most_determinism_cost;
    if (env_.fresh_process) context.fresh_process = [this] { return env_.fresh_process(case_.id); };
    std::vector<CheckSpec> specs = case_.checks;
    add_price_check(env_.most_determinism_cost, specs);
    for (const CheckSpec& spec : specs) {
      phase(fmt::format("check {}", name_of(spec.kind)));
      add_check(run_dense_check(env_.quick ? quick_form(spec) : spec, context), result_);
    }
    result_.determinism = context.ledger.finish(result_.variants, !env_.backend.device());
    if (env_.most_determinism_cost)
      add_check(judge_prices(context.ledger.prices(), *env_.most_determinism_cost), result_);
  }

  void time(DenseSession& session) {
    phase("time backward");
    const TimingSpec timing = env_.quick ? quick_form(case_.timing) : case_.timing;
    const DenseTimes times = measure_dense(session, timing, case_.launch, [this] { return deadline_.passed(); });
    result_.timer_floor_us = times.timer_floor_us;
    for (const DenseTimes::Mode& mode : times.modes) add_timing(session, mode);
    if (!env_.checks) return;
    phase("verify after timing");
    DenseCheckContext context = check_context(session);
    add_check(check_after_timing(context), result_);
  }

  void add_timing(const DenseSession& session, const DenseTimes::Mode& mode) {
    const StageCost cost = dense_cost(session.buffers());
    const double rate = mode.time.median_us > 0 ? cost.bytes / mode.time.median_us * 1e6 : 0;
    PassTiming pass{.name = "backward",
                    .l2 = mode.l2,
                    .time = mode.time,
                    .host_us = mode.host_us,
                    .bytes_moved = cost.bytes,
                    .flops = cost.flops};
    StageTiming stage{.name = "dense_rescan",
                      .pass = "backward",
                      .l2 = mode.l2,
                      .calls = 1,
                      .time = mode.time,
                      .bytes_moved = cost.bytes,
                      .flops = cost.flops};
    if (rate > 0) {
      pass.bytes_per_second = stage.bytes_per_second = rate;
      for (const RoofPoint& point : env_.roof)
        if (point.kind == "copy") stage.roof_percent = 100 * rate / point.bytes_per_second;
    }
    result_.passes.push_back(std::move(pass));
    result_.stages.push_back(std::move(stage));
  }

  /// Spec 5.7: warm-up outside the profiled region, then exactly the asked launch.
  void profile(DenseSession& session) {
    Backend& backend = env_.backend;
    backend.push_range("case:" + case_.id);
    session.restore();
    backend.push_range("warmup");
    session.run();
    backend.synchronize();
    backend.pop_range();
    backend.profiler_start();
    for (const char* range : {"measure", "bwd"}) backend.push_range(range);
    session.run();
    backend.synchronize();
    for (int i = 0; i < 2; ++i) backend.pop_range();
    backend.profiler_stop();
    backend.pop_range();
    result_.status = CaseStatus::ok;
  }

  const Case& case_;
  const DenseWorkload& workload_;
  const CaseEnvironment& env_;
  CaseResult& result_;
  Deadline deadline_;
  DenseInputs inputs_;
};

}  // namespace

void run_dense_case(const Case& c, const CaseEnvironment& environment, CaseResult& result) {
  DenseCaseRunner(c, environment, result).run();
}

}  // namespace sdm
