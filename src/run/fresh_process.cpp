#include "run/fresh_process.h"

#include <algorithm>
#include <csignal>
#include <iterator>

#include "base/error.h"
#include "config/expand.h"
#include "report/json.h"
#include "run/child_process.h"

namespace sdm {
namespace {

/// Ids are "config/case/..."
std::string config_of(const std::string& case_id) { return case_id.substr(0, case_id.find('/')); }

}  // namespace

std::vector<Case> cases_with_process(std::span<const Case> cases) {
  std::vector<Case> out;
  std::copy_if(cases.begin(), cases.end(), std::back_inserter(out), [](const Case& c) {
    return std::any_of(c.checks.begin(), c.checks.end(),
                       [](const CheckSpec& spec) { return spec.kind == CheckSpec::Kind::process; });
  });
  return out;
}

void FreshProcess::run(const std::string& config) {
  std::vector<Case> cases;
  std::copy_if(cases_.begin(), cases_.end(), std::back_inserter(cases),
               [&](const Case& c) { return config_of(c.id) == config; });
  ChildTask task{{"run", "-", "--no-checks", "--no-timing", "--quiet", "--format", "json"},
                 effective_config_json(cases),
                 0,
                 [this] { return stop_ && stop_() ? SIGTERM : 0; }};
  task.arguments.insert(task.arguments.end(), arguments_.begin(), arguments_.end());
  const ChildOutcome outcome = run_child(task);
  ended_[config] = how_it_ended(outcome);
  if (outcome.exit_code < 0 || outcome.out.empty()) return;
  for (CaseResult& c : report_from_json(outcome.out, "the fresh process").cases)
    if (c.status == CaseStatus::ok) digests_[c.id] = std::move(c.digests);
}

const Digests& FreshProcess::digests(const std::string& case_id) {
  const std::string config = config_of(case_id);
  if (!ended_.contains(config)) run(config);
  const auto found = digests_.find(case_id);
  if (found == digests_.end())
    throw UserError(fmt::format("the fresh process left no digests of {}; it {}", case_id, ended_.at(config)));
  return found->second;
}

}  // namespace sdm
