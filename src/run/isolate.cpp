#include "run/isolate.h"

#include <chrono>

#include "base/error.h"
#include "config/expand.h"
#include "report/json.h"
#include "run/child_process.h"

namespace sdm {
namespace {

/// Beyond the case's own limit, which the child keeps between phases: for starting, and for opening a GPU.
constexpr double kGraceSeconds = 3;

/// The child's own result, if it left one.
bool read_result(const Case& c, const ChildOutcome& outcome, IsolatedCase& isolated) {
  if (outcome.exit_code < 0 || outcome.out.empty()) return false;
  try {
    Report report = report_from_json(outcome.out, "the case's process");
    if (report.cases.size() != 1 || report.cases[0].id != c.id) return false;
    isolated.result = std::move(report.cases[0]);
    isolated.roof = std::move(report.roof);
    return true;
  } catch (const UserError&) {
    return false;  // torn; how it ended says more
  }
}

}  // namespace

IsolatedCase run_case_isolated(const Case& c, const IsolateOptions& options) {
  const double limit = c.timing.case_timeout_seconds;
  ChildTask task{
      {"run", "-"}, effective_config_json({&c, 1}), limit > 0 ? limit + kGraceSeconds : 0, options.interrupt};
  task.arguments.insert(task.arguments.end(), {"--format", "json", "--quiet"});
  task.arguments.insert(task.arguments.end(), options.arguments.begin(), options.arguments.end());
  const auto start = std::chrono::steady_clock::now();
  const ChildOutcome outcome = run_child(task);
  IsolatedCase isolated;
  if (read_result(c, outcome, isolated)) return isolated;
  CaseResult& result = isolated.result;
  result.id = c.id, result.name = c.name, result.params = c.params;
  result.wall_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (outcome.interrupted) {
    result.reason = "interrupted";
  } else if (outcome.over_limit) {
    result.status = CaseStatus::timeout;
    result.reason = fmt::format("the case's time limit of {} s is over and its process did not end by itself", limit);
  } else {
    result.status = CaseStatus::error;
    result.reason = "the case's process " + how_it_ended(outcome);
  }
  return isolated;
}

}  // namespace sdm
