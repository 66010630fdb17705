#include <unistd.h>

#include "base/error.h"
#include "cli/commands.h"
#include "io/atomic_file.h"
#include "report/compare.h"
#include "report/json.h"
#include "report/terminal.h"

namespace sdm {
namespace {

MergedSide load_side(const std::vector<std::string>& files) {
  std::vector<Report> reports;
  reports.reserve(files.size());
  for (const std::string& file : files) reports.push_back(load_report(file));
  return merge_reports(reports, files);
}

/// `compare A B` is base and new; with more files the sides are told apart by `--`.
std::pair<std::vector<std::string>, std::vector<std::string>> sides(const CompareOptions& options) {
  if (!options.now.empty() && !options.base.empty()) return {options.base, options.now};
  if (options.now.empty() && options.base.size() == 2) return {{options.base[0]}, {options.base[1]}};
  throw UserError("compare needs the base's files, then -- and the new ones: sdm-bench compare BASE... -- NEW...");
}

CompareRules rules_of(const CompareOptions& options) {
  CompareRules rules;
  if (!options.thresholds.empty()) read_thresholds(read_file(options.thresholds), options.thresholds, rules);
  Limit& median = rules.metrics[Metric::median_us];
  if (options.relative) median.relative = *options.relative;
  if (options.absolute_us) median.absolute = *options.absolute_us;
  rules.digests_only = options.digests;
  rules.cross_device = options.cross_device;
  rules.require_all = options.require_all;
  return rules;
}

ExitCode comparison_exit_code(Outcome outcome) {
  switch (outcome) {
    case Outcome::good: return ExitCode::ok;
    case Outcome::failed: return ExitCode::check_failed;
    case Outcome::regression: return ExitCode::regression;
    case Outcome::inconclusive: return ExitCode::inconclusive;
  }
  return ExitCode::inconclusive;
}

}  // namespace

std::string comparison_format(const CommonOptions& o) {
  if (!o.format.empty()) return check_comparison_format(o.format), o.format;
  for (const auto& [ending, format] : {std::pair{".md", "md"}, {".json", "json"}, {".xml", "junit"}})
    if (o.output.ends_with(ending)) return format;
  return "table";
}

ExitCode compare_results(const CompareOptions& options) {
  const auto [base, now] = sides(options);
  const bool color = color_wanted(color_mode(options.common.color), STDOUT_FILENO) && options.common.output == "-";
  const Comparison comparison = compare(load_side(base), load_side(now), rules_of(options));
  emit(options.common, render_comparison(comparison, comparison_format(options.common), color, options.common.verbose));
  return comparison_exit_code(comparison.outcome);
}

}  // namespace sdm
