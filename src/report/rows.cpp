#include "report/rows.h"

#include <algorithm>

#include "base/error.h"
#include "base/text.h"

namespace sdm {
namespace {

TimingRow row_of(const PassTiming& pass) {
  TimingRow row;
  row.is_pass = true;
  row.pass = pass.name;
  row.l2 = pass.l2;
  row.time = &pass.time;
  row.host_us = pass.host_us;
  row.host_us_per_step = pass.host_us_per_step;
  row.bytes_moved = pass.bytes_moved;
  row.flops = pass.flops;
  row.bytes_per_second = pass.bytes_per_second;
  return row;
}

TimingRow row_of(const StageTiming& stage, const CaseResult& result) {
  TimingRow row;
  row.pass = stage.pass;
  row.l2 = stage.l2;
  row.stage = stage.name;
  row.calls = stage.calls;
  row.time = &stage.time;
  row.bytes_moved = stage.bytes_moved;
  row.flops = stage.flops;
  row.bytes_per_second = stage.bytes_per_second;
  row.roof_percent = stage.roof_percent;
  const auto variant = result.variants.find(stage.name);
  if (variant != result.variants.end()) row.variant = &variant->second;
  return row;
}

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

std::string groups_phrase(const char* what, std::int64_t entries, std::int64_t groups, double singles,
                          std::int64_t longest) {
  return fmt::format("{} {} in {} groups ({} single, longest {})", with_thousands(entries), what,
                     with_thousands(groups), percent(singles), with_thousands(longest));
}

/// "the host launches forward (hot) in 95.20 µs, 1.488 µs a step"; empty where nothing is launched.
std::string launch_phrase(const PassTiming& pass) {
  if (!pass.host_us || pass.l2 == "host") return "";
  const std::string each =
      pass.host_us_per_step ? fmt::format(", {} a step", human_microseconds(*pass.host_us_per_step)) : "";
  return fmt::format("the host launches {} in {}{}", row_label(row_of(pass)), human_microseconds(*pass.host_us), each);
}

/// "prepare is 14.2 % of forward (hot)"; empty for other passes.
std::string share_phrase(const PassTiming& part, const std::vector<PassTiming>& passes) {
  if (part.name != "prepare" || part.time.median_us <= 0) return "";
  for (const PassTiming& whole : passes)
    if (whole.name == "forward" && whole.l2 == part.l2 && whole.time.median_us > 0)
      return fmt::format("prepare is {} of {}", percent(part.time.median_us / whole.time.median_us),
                         row_label(row_of(whole)));
  return "";
}

}  // namespace

std::vector<TimingRow> timing_rows(const CaseResult& result) {
  std::vector<TimingRow> rows;
  std::vector<bool> placed(result.stages.size(), false);
  for (const PassTiming& pass : result.passes) {
    rows.push_back(row_of(pass));
    for (std::size_t i = 0; i < result.stages.size(); ++i) {
      const StageTiming& stage = result.stages[i];
      if (placed[i] || stage.pass != pass.name || stage.l2 != pass.l2) continue;
      rows.push_back(row_of(stage, result));
      placed[i] = true;
    }
  }
  for (std::size_t i = 0; i < result.stages.size(); ++i)
    if (!placed[i]) rows.push_back(row_of(result.stages[i], result));
  return rows;
}

std::string row_label(const TimingRow& row) {
  if (!row.is_pass) return row.stage;
  return row.l2.empty() ? row.pass : fmt::format("{} ({})", row.pass, row.l2);
}

Tally tally(const Report& report) {
  Tally sum;
  for (const CaseResult& result : report.cases) {
    ++sum.cases;
    if (result.wall_seconds) sum.seconds = sum.seconds.value_or(0) + *result.wall_seconds;
    switch (result.status) {
      case CaseStatus::ok: ++sum.passed; break;
      case CaseStatus::failed: ++sum.failed; break;
      case CaseStatus::skipped: ++sum.skipped; break;
      case CaseStatus::oom:
      case CaseStatus::timeout:
      case CaseStatus::error:
      case CaseStatus::not_run: ++sum.other; break;
    }
  }
  return sum;
}

std::string summary_line(const Report& report) {
  const Tally sum = tally(report);
  std::string line = fmt::format("{} {}: {} passed, {} failed, {} skipped", sum.cases,
                                 sum.cases == 1 ? "case" : "cases", sum.passed, sum.failed, sum.skipped);
  if (sum.other > 0) line += fmt::format(", {} could not run", sum.other);
  if (sum.seconds) line += " · " + human_seconds(*sum.seconds);
  if (report.run.status == "interrupted") line += " · interrupted";
  return line;
}

std::string title_line(const Report& report) {
  const ToolInfo& tool = report.tool;
  std::string line = "sdm-bench " + tool.version;
  if (!tool.git_sha.empty()) line += fmt::format(" ({}{})", tool.git_sha.substr(0, 9), tool.dirty ? ", modified" : "");
  for (const DeviceInfo& device : report.devices) {
    line += " · " + device.name;
    if (!device.driver.empty()) line += fmt::format(" (driver {})", device.driver);
  }
  if (!report.run.started_at.empty()) line += " · " + report.run.started_at;
  return line;
}

std::vector<std::string> fact_phrases(const CaseResult& result) {
  std::vector<std::string> phrases;
  if (result.facts) {
    const WorkloadFacts& f = *result.facts;
    phrases.push_back(
        groups_phrase("writes", f.write_entries, f.write_groups, f.write_singleton_share, f.longest_write_group));
    phrases.push_back(
        groups_phrase("reads", f.read_entries, f.read_groups, f.read_singleton_share, f.longest_read_group));
    phrases.push_back(percent(f.slot_coverage) + " of the slots touched");
  }
  if (result.peak_memory_bytes)
    phrases.push_back("peak memory " + human_bytes(static_cast<double>(*result.peak_memory_bytes)));
  if (result.timer_floor_us) phrases.push_back("timer floor " + human_microseconds(*result.timer_floor_us));
  if (const std::string mode = result.launch.substr(0, result.launch.find(':')); !mode.empty() && mode != "host")
    phrases.push_back("launched as " + mode);
  for (const PassTiming& pass : result.passes)
    for (std::string phrase : {launch_phrase(pass), share_phrase(pass, result.passes)})
      if (!phrase.empty()) phrases.push_back(std::move(phrase));
  if (result.wall_seconds) phrases.push_back("wall time " + human_seconds(*result.wall_seconds));
  return phrases;
}

std::string variant_label(const ResolvedVariant* variant) {
  if (!variant) return "";
  const bool weaker =
      !variant->guarantee.empty() && variant->guarantee != "exact" && variant->name != variant->guarantee;
  return weaker ? fmt::format("{} ({})", variant->name, variant->guarantee) : variant->name;
}

namespace {

/// "cpu_equal in 15 stages, not_guaranteed in 1 stage", highest level first.
std::string level_counts(const std::vector<StageDeterminism>& rows, bool chosen, const char* one, const char* many) {
  std::string line;
  for (int level = static_cast<int>(DeterminismLevel::cpu_equal); level >= 0; --level) {
    const auto count = std::count_if(rows.begin(), rows.end(), [&](const StageDeterminism& row) {
      return row.chosen == chosen && static_cast<int>(row.level) == level;
    });
    if (count > 0)
      line += fmt::format("{}{} in {} {}", line.empty() ? "" : ", ", name_of(static_cast<DeterminismLevel>(level)),
                          count, count == 1 ? one : many);
  }
  return line;
}

}  // namespace

std::vector<std::string> determinism_lines(const CaseResult& result) {
  std::vector<std::string> lines;
  if (!result.determinism) return lines;
  const Determinism& d = *result.determinism;
  if (const std::string levels = level_counts(d.stages, true, "stage", "stages"); !levels.empty())
    lines.push_back("determinism: " + levels);
  if (const std::string levels = level_counts(d.stages, false, "other variant", "other variants"); !levels.empty())
    lines.push_back("beside it: " + levels);
  // Stages that share a reason share a line.
  std::vector<std::pair<std::string, std::string>> reasons;
  for (const StageDeterminism& row : d.stages) {
    if (row.reason.empty()) continue;
    const std::string reason = fmt::format("{}: {}", name_of(row.level), row.reason);
    const std::string name = row.stage + "/" + row.variant;
    const auto known = std::find_if(reasons.begin(), reasons.end(), [&](const auto& r) { return r.first == reason; });
    if (known == reasons.end())
      reasons.emplace_back(reason, name);
    else
      known->second += ", " + name;
  }
  for (const auto& [reason, names] : reasons) lines.push_back(fmt::format("{}: {}", names, reason));
  for (const DeterminismPrice& price : d.prices)
    lines.push_back(fmt::format("price of order in the {}: {}/{} {} against {} {}, ratio {:.3f}{}", price.pass,
                                price.stage, price.deterministic, human_microseconds(price.deterministic_us),
                                price.baseline, human_microseconds(price.baseline_us), price.ratio(),
                                price.varied ? "" : " (the baseline did not vary here)"));
  return lines;
}

std::vector<std::string> timing_notes(const CaseResult& result) {
  std::vector<std::string> throttled, loose;
  for (const TimingRow& row : timing_rows(result)) {
    if (row.time->throttled > 0)
      throttled.push_back(fmt::format("{} {} of {}", row_label(row), row.time->throttled, row.time->samples_us.size()));
    if (!row.time->samples_us.empty() && !row.time->converged) {
      const double spread = row.time->median_us > 0 ? (row.time->q3_us - row.time->q1_us) / row.time->median_us : 0;
      loose.push_back(fmt::format("{} {}", row_label(row), percent(spread)));
    }
  }
  std::vector<std::string> notes;
  if (!throttled.empty()) notes.push_back("samples below the clock threshold: " + join(throttled));
  if (!loose.empty()) notes.push_back("spread (IQR) above the asked bound when time was up: " + join(loose));
  return notes;
}

}  // namespace sdm
