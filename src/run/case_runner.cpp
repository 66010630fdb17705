#include "run/case_runner.h"

#include <chrono>
#include <new>

#include "base/error.h"
#include "check/check.h"
#include "measure/protocol.h"
#include "numerics/fp.h"
#include "pipeline/cost.h"
#include "run/case_support.h"
#include "run/dense_runner.h"
#include "run/sparse_session.h"

namespace sdm {
namespace {

class SparseCaseRunner {
 public:
  SparseCaseRunner(const Case& c, const CaseEnvironment& environment, CaseResult& result)
      : case_(c),
        workload_(std::get<SparseWorkload>(c.workload)),
        env_(environment),
        result_(result),
        deadline_(c.timing.case_timeout_seconds, environment.stop),
        stages_(registry()) {
    stages_.fault = environment.fault;
  }

  void run() {
    check_memory();
    phase("generate");
    inputs_ = generate_inputs(workload_, env_.threads);
    result_.facts = measure_facts(workload_, inputs_, env_.threads);
    SparseSession session(workload_, inputs_, env_.backend, env_.threads, case_.variants, stages_);
    session.set_geometry(env_.geometry);
    session.set_launch(case_.launch);
    result_.launch = session.launch_name();
    result_.variants = session.resolved();
    result_.peak_memory_bytes = session.arena().bytes();
    result_.geometry = {{"gather_groups", session.buffers().gather_groups},
                        {"gather_grad_groups", session.buffers().gather_grad_groups},
                        {"contract_version", kContractVersion}};
    if (env_.profile) return profile(session);
    reference_run(session);
    if (env_.checks) run_checks(session);
    if (env_.timing && case_.timed && result_.status == CaseStatus::ok) time(session);
  }

 private:
  void phase(std::string_view what) const {
    deadline_.check();
    if (env_.phase) env_.phase(what);
  }

  void check_memory() const { require_memory(SparseSession::bytes_for(workload_), env_.backend.free_memory()); }

  void reference_run(SparseSession& session) {
    phase("run");
    reference_ = run_step(session);
    result_.digests = reference_.forward;
    for (const auto& [stage, tensors] : reference_.backward)
      result_.digests[stage].insert(tensors.begin(), tensors.end());
    result_.status = CaseStatus::ok;
  }

  void run_checks(SparseSession& session) {
    CheckContext context{workload_, inputs_,      case_.variants,     case_.launch,        session, env_.backend,
                         env_.host, env_.threads, reference_.forward, reference_.backward, stages_};
    context.price = env_.timing || env_.most_determinism_cost;
    if (env_.fresh_process) context.fresh_process = [this] { return env_.fresh_process(case_.id); };
    std::vector<CheckSpec> specs = case_.checks;
    add_price_check(env_.most_determinism_cost, specs);
    for (const CheckSpec& spec : specs) {
      phase(fmt::format("check {}", name_of(spec.kind)));
      add_check(run_check(env_.quick ? quick_form(spec) : spec, context), result_);
    }
    const bool host_replay = !env_.backend.device() && !env_.fault;
    result_.determinism = context.ledger.finish(result_.variants, host_replay);
    if (env_.most_determinism_cost)
      add_check(judge_prices(context.ledger.prices(), *env_.most_determinism_cost), result_);
  }

  void time(SparseSession& session) {
    MeasureOptions options{env_.quick ? quick_form(case_.timing) : case_.timing,
                           [this](std::string_view what) { phase(what); }, [this] { return deadline_.passed(); }};
    const MeasureResult measured = measure(session, options);
    result_.timer_floor_us = measured.timer_floor_us;
    result_.passes = measured.passes;
    result_.stages = measured.stages;
    add_bandwidth(session.buffers());
    if (!env_.checks) return;
    phase("verify after timing");
    const std::string loose = variants_of(session, Guarantee::approximate);
    const std::string where =
        loose.empty() ? first_difference(session.buffers(), reference_, run_step(session)) : std::string();
    CheckResult after = !loose.empty()  ? check::skipped(loose + " has no fixed order: there are no bits to compare")
                        : where.empty() ? check::passed("the bits after timing equal those before")
                                        : check::failed(where + " differs from the run before timing");
    after.name = "after_timing";
    add_check(after, result_);
  }

  void add_bandwidth(const SparseBuffers& buffers) {
    std::map<std::string, StageCost> passes;
    for (StageTiming& stage : result_.stages) {
      const StageCost cost = stage_cost(stage.name, buffers, *result_.facts);
      stage.bytes_moved = cost.bytes, stage.flops = cost.flops;
      stage.bytes_per_second =
          stage.time.median_us > 0 ? std::optional(cost.bytes / stage.time.median_us * 1e6) : std::nullopt;
      if (const auto roof = roof_of(stage.name, buffers); roof && stage.bytes_per_second)
        stage.roof_percent = 100 * *stage.bytes_per_second / *roof;
      const auto add_to = [&](const std::string& pass) {
        passes[pass + stage.l2].bytes += cost.bytes, passes[pass + stage.l2].flops += cost.flops;
      };
      add_to(stage.pass);
      if (in_prepare(stage.name)) add_to("prepare");
    }
    for (PassTiming& pass : result_.passes) {
      const StageCost cost = passes[pass.name + pass.l2];
      if (cost.bytes == 0 || pass.time.median_us == 0) continue;
      pass.bytes_moved = cost.bytes, pass.flops = cost.flops,
      pass.bytes_per_second = cost.bytes / pass.time.median_us * 1e6;
    }
  }

  std::optional<double> roof_of(std::string_view stage, const SparseBuffers& buffers) const {
    const Access access = stage_access(stage);
    const std::string_view kind = access == Access::stream     ? "copy"
                                  : access == Access::row_read ? "row_read"
                                                               : "row_read_write";
    const std::int64_t row_bytes =
        workload_.head_dim *
        static_cast<std::int64_t>(size_of(stage == "gather_grad" ? buffers.grad.dtype : buffers.bank.dtype));
    for (const RoofPoint& point : env_.roof)
      if (point.kind == kind && (access == Access::stream || point.row_bytes == row_bytes))
        return point.bytes_per_second;
    return std::nullopt;
  }

  /// Spec 5.7: warm-up outside the profiled region, then exactly the asked launches, no checks inside.
  void profile(SparseSession& session) {
    Backend& backend = env_.backend;
    if (case_.launch == LaunchMode::automatic) session.set_launch(LaunchMode::eager);  // a graph has no ranges inside
    result_.launch = session.launch_name();
    backend.push_range("case:" + case_.id);
    session.restore();
    backend.push_range("warmup");
    session.run_training_step();
    backend.synchronize();
    backend.pop_range();
    session.restore_banks();
    backend.synchronize();
    backend.profiler_start();
    backend.push_range("measure");
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      backend.push_range(pass == Pass::forward ? "fwd" : "bwd");
      session.run(pass);
      backend.pop_range();
    }
    backend.synchronize();
    backend.pop_range();
    backend.profiler_stop();
    backend.pop_range();
    result_.status = CaseStatus::ok;
  }

  const Case& case_;
  const SparseWorkload& workload_;
  const CaseEnvironment& env_;
  CaseResult& result_;
  Deadline deadline_;
  Registry stages_;  ///< the tool's own, perhaps with a planted fault
  SparseInputs inputs_;
  StepDigests reference_;
};

void fail(CaseResult& result, CaseStatus status, std::string reason) {
  result.status = status;
  result.reason = std::move(reason);
}

}  // namespace

CaseResult run_case(const Case& c, const CaseEnvironment& environment) {
  CaseResult result;
  result.id = c.id, result.name = c.name, result.params = c.params;
  const DeviceInfo info = environment.backend.info();
  result.device = info.uuid.empty() ? info.kind : info.uuid;
  const auto start = std::chrono::steady_clock::now();
  try {
    if (std::holds_alternative<SparseWorkload>(c.workload))
      SparseCaseRunner(c, environment, result).run();
    else
      run_dense_case(c, environment, result);
  } catch (const Abandoned& abandoned) {
    fail(result, abandoned.status, abandoned.reason);
  } catch (const Unsupported& unsupported) {
    fail(result, CaseStatus::skipped, unsupported.what());
  } catch (const CudaError& error) {
    if (error.sticky) throw;
    fail(result, error.out_of_memory ? CaseStatus::oom : CaseStatus::error, error.what());
  } catch (const std::bad_alloc&) {
    fail(result, CaseStatus::oom, "host memory is exhausted");
  } catch (const std::exception& error) {  // also a broken invariant: it costs this case, not those to come
    fail(result, CaseStatus::error, error.what());
  }
  result.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace sdm
