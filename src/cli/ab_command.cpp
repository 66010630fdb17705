// run --ab: two forms of the same cases in one process, sampled in turn.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "cli/commands.h"
#include "io/atomic_file.h"
#include "report/compare.h"
#include "report/json.h"
#include "report/progress.h"
#include "report/terminal.h"
#include "run/ab.h"
#include "run/tool_info.h"

namespace sdm {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ';')
      parts.emplace_back();
    else
      parts.back() += c;
  }
  std::erase(parts, "");
  return parts;
}

/// The cases under "path=value;path=value". Only what leaves the workload as it is can be compared in bits and time.
std::vector<Case> form_of(const CaseOptions& options, const std::string& overrides) {
  CaseOptions changed = options;
  for (const std::string& part : split(overrides)) {
    if (!part.starts_with("variants.") && !part.starts_with("launch="))
      throw UserError(fmt::format(
          "--ab {}: an A/B changes variants.<stage>=<name> or launch=<mode>, nothing of the workload", part));
    changed.set.push_back(part);
  }
  return select_cases(changed);
}

ExitCode ab_exit_code(const Comparison& comparison, const Report& a) {
  if (interrupted()) return static_cast<ExitCode>(128 + interrupted());
  if (comparison.outcome == Outcome::failed) return ExitCode::check_failed;
  for (const CaseResult& c : a.cases)
    if (c.status != CaseStatus::ok) return ExitCode::could_not_run;
  return ExitCode::ok;  // slower or faster is the answer, not a failure
}

/// Case i of one form is sampled against case i of the other.
void require_same_cases(const std::vector<Case>& a, const std::vector<Case>& b) {
  const auto same_id = [](const Case& x, const Case& y) { return x.id == y.id; };
  if (!std::equal(a.begin(), a.end(), b.begin(), b.end(), same_id))
    throw UserError("--ab: the two forms do not have the same cases; what an A/B changes must not be swept, too");
}

}  // namespace

ExitCode run_ab(const RunOptions& options, const std::vector<std::string>& argv) {
  if (options.ab.size() > 2)
    throw UserError(fmt::format("--ab is given {} times; once (the config against a change) or twice (A and B)",
                                options.ab.size()));
  const std::string name_a = options.ab.size() == 2 ? options.ab[0] : "as configured", name_b = options.ab.back();
  const std::vector<Case> cases_a = form_of(options.cases, options.ab.size() == 2 ? options.ab[0] : ""),
                          cases_b = form_of(options.cases, name_b);
  require_same_cases(cases_a, cases_b);
  if (options.dry_run) return emit({}, ids_of(cases_a)), ExitCode::ok;
  const std::string format = comparison_format(options.common), output = options.common.output;
  check_writable(output, options.common.force);
  if (output != "-")
    for (const char* side : {".a.json", ".b.json"}) check_writable(output + side, options.common.force);
  const ColorMode color = color_mode(options.common.color);
  const std::unique_ptr<Backend> backend = open_device(options.device, options.portable);
  Parallel threads(options.threads);
  Report a = start_report(argv, backend->info(), cases_a), b = start_report(argv, backend->info(), cases_b);
  Progress progress(static_cast<int>(cases_a.size()), progress_style(options.common.quiet, color));
  const AbEnvironment environment{*backend, threads, options.quick,
                                  [&](std::string_view what) { progress.phase(what); },
                                  [] { return interrupted() != 0; }};
  for (std::size_t i = 0; i < cases_a.size() && !interrupted(); ++i) {
    progress.start_case(cases_a[i].id);
    auto [result_a, result_b] = run_interleaved(cases_a[i], cases_b[i], environment);
    progress.finish_case(result_a.status, result_a.reason);
    a.cases.push_back(std::move(result_a)), b.cases.push_back(std::move(result_b));
  }
  progress.finish();
  for (Report* report : {&a, &b}) {
    report->run.finished_at = timestamp_now();
    report->run.status = interrupted() ? "interrupted" : "finished";
  }
  const Comparison comparison = compare(merge_reports({a}, {"A: " + name_a}), merge_reports({b}, {"B: " + name_b}), {});
  emit(options.common, render_comparison(comparison, format, color_wanted(color, STDOUT_FILENO), true));
  if (output != "-") {  // both results beside it
    write_file(output + ".a.json", to_json(a), options.common.force);
    write_file(output + ".b.json", to_json(b), options.common.force);
  }
  return ab_exit_code(comparison, a);
}

}  // namespace sdm
