// The HTML report: one self-contained page.
#include "report/html.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "report/escape.h"
#include "report/render.h"
#include "report/rows.h"

namespace sdm {
namespace html {
namespace {

constexpr std::string_view kGood[] = {"ok", "passed"};
constexpr std::string_view kBad[] = {"failed", "error", "oom", "timeout"};

template <std::size_t N>
bool one_of(std::string_view word, const std::string_view (&words)[N]) {
  return std::find(std::begin(words), std::end(words), word) != std::end(words);
}

std::string tile(const std::string& value, std::string_view what) {
  return fmt::format("<div class=\"tile\"><b>{}</b><span>{}</span></div>", text(value), text(what));
}

std::string header(const Report& report) {
  const Tally sum = tally(report);
  std::string name =
      report.cases.empty() ? "sdm-bench" : report.cases.front().id.substr(0, report.cases.front().id.find('/'));
  std::string out = fmt::format("<header><h1>{}</h1><p class=\"lead\">{}</p>", text(name), text(title_line(report)));
  if (report.run.status == "interrupted") out += "<p class=\"reason\">This run was interrupted: cases are missing.</p>";
  std::size_t checks = 0, passed = 0;
  for (const CaseResult& result : report.cases)
    for (const CheckResult& check : result.checks) {
      checks += check.status == CheckResult::Status::passed || check.status == CheckResult::Status::failed ||
                check.status == CheckResult::Status::error;
      passed += check.status == CheckResult::Status::passed;
    }
  out += "<div class=\"tiles\">" +
         tile(fmt::format("{} of {}", sum.passed, sum.cases), sum.cases == 1 ? "case passed" : "cases passed");
  if (sum.failed + sum.other > 0) out += tile(fmt::format("{}", sum.failed + sum.other), "failed or could not run");
  if (checks > 0) out += tile(fmt::format("{} of {}", passed, checks), "checks passed");
  if (sum.seconds) out += tile(human_seconds(*sum.seconds), "run time");
  for (const DeviceInfo& device : report.devices)
    if (device.memory_bytes)
      out += tile(human_bytes(static_cast<double>(*device.memory_bytes)), "memory of " + device.name);
  return out + "</div></header>\n";
}

/// The median of a pass under the first cache mode.
std::string pass_time(const CaseResult& result, std::string_view pass) {
  for (const PassTiming& timing : result.passes)
    if (timing.name == pass && !timing.time.samples_us.empty()) return text(human_microseconds(timing.time.median_us));
  return "–";
}

/// The stage that takes longest under the first cache mode, and how near to the roof it is.
std::string slowest_stage(const CaseResult& result) {
  const StageTiming* slowest = nullptr;
  for (const StageTiming& stage : result.stages)
    if (!stage.time.samples_us.empty() && stage.l2 == result.stages.front().l2 &&
        (!slowest || stage.time.median_us > slowest->time.median_us))
      slowest = &stage;
  if (!slowest) return "–";
  std::string out = text(slowest->name);
  if (slowest->roof_percent && std::isfinite(*slowest->roof_percent))
    out += fmt::format(" ({:.0f} % of the roof)", *slowest->roof_percent);
  return out;
}

std::string overview(const Report& report) {
  std::string rows;
  for (std::size_t i = 0; i < report.cases.size(); ++i) {
    const CaseResult& result = report.cases[i];
    rows += fmt::format(
        "<tr><td><a href=\"#case-{}\">{}</a></td><td>{}</td><td class=\"num\">{}</td><td "
        "class=\"num\">{}</td><td>{}</td><td class=\"num\">{}</td></tr>\n",
        i, text(result.id), chip(name_of(result.status)), pass_time(result, "forward"), pass_time(result, "backward"),
        slowest_stage(result),
        result.peak_memory_bytes ? human_bytes(static_cast<double>(*result.peak_memory_bytes)) : "–");
  }
  return "<h2>Overview</h2><div class=\"card scroll\"><table class=\"grid\"><tr><th>case</th><th>status</th><th "
         "class=\"num\">forward</th><th class=\"num\">backward</th>"
         "<th>slowest stage</th><th class=\"num\">memory</th></tr>\n" +
         rows + "</table></div>\n";
}

class Facts {
 public:
  void add(std::string_view key, const std::string& value) {
    if (!value.empty()) body_ += fmt::format("<dt>{}</dt><dd>{}</dd>", text(key), text(value));
  }
  std::string card(std::string_view title) const {
    if (body_.empty()) return "";
    return fmt::format("<section class=\"card\"><h4>{}</h4><dl>{}</dl></section>\n", text(title), body_);
  }

 private:
  std::string body_;
};

std::string with_unit(const std::optional<double>& value, std::string_view unit) {
  return value && std::isfinite(*value) ? fmt::format("{:g} {}", *value, unit) : "";
}

std::string device_card(const DeviceInfo& device) {
  Facts facts;
  facts.add("kind", device.kind);
  facts.add("uuid", device.uuid);
  facts.add("PCI", device.pci_id);
  facts.add("driver", device.driver);
  if (device.compute_capability)
    facts.add("compute capability",
              fmt::format("{}.{}", *device.compute_capability / 10, *device.compute_capability % 10));
  if (device.multiprocessors) facts.add("multiprocessors", fmt::format("{}", *device.multiprocessors));
  if (device.memory_bytes) facts.add("memory", human_bytes(static_cast<double>(*device.memory_bytes)));
  if (device.l2_bytes) facts.add("L2", human_bytes(static_cast<double>(*device.l2_bytes)));
  facts.add("SM clock", with_unit(device.sm_clock_mhz, "MHz"));
  facts.add("highest SM clock", with_unit(device.max_sm_clock_mhz, "MHz"));
  facts.add("memory clock", with_unit(device.memory_clock_mhz, "MHz"));
  facts.add("temperature", with_unit(device.temperature_c, "°C"));
  facts.add("throttled by", join(device.throttle_reasons));
  if (device.other_processes) facts.add("other processes", fmt::format("{}", *device.other_processes));
  return facts.card(device.name);
}

std::string environment(const Report& report) {
  std::string cards;
  for (const DeviceInfo& device : report.devices) cards += device_card(device);
  Facts tool;
  tool.add("version", report.tool.version);
  tool.add("commit", report.tool.git_sha + (report.tool.dirty ? " (modified)" : ""));
  tool.add("contract", fmt::format("{}", report.tool.contract_version));
  tool.add("build", report.tool.build_type);
  tool.add("compiler", report.tool.compiler);
  tool.add("CUDA toolkit", report.tool.toolkit);
  tool.add("architectures", join(report.tool.sm_list));
  tool.add("flags", report.tool.flags);
  cards += tool.card("sdm-bench");
  Facts run;
  run.add("started", report.run.started_at);
  run.add("finished", report.run.finished_at);
  run.add("command", join(report.run.argv, " "));
  for (const auto& [key, value] : report.environment) run.add(key, value);
  cards += run.card("Run");
  Facts roof;
  for (const RoofPoint& point : report.roof)
    roof.add(point.row_bytes > 0
                 ? fmt::format("{}, rows of {}", point.kind, human_bytes(static_cast<double>(point.row_bytes)))
                 : point.kind,
             with_thousands(point.bytes_per_second * 1e-9, 1) + " GB/s");
  cards += roof.card("Roof, measured in this run");
  return "<h2>Environment</h2><div class=\"two\">" + cards + "</div>\n";
}

std::string reading_help(const Report& report) {
  const bool timed =
      std::any_of(report.cases.begin(), report.cases.end(), [](const CaseResult& c) { return !c.stages.empty(); });
  if (!timed) return "";
  return "<div class=\"legend\"><span><i style=\"background:var(--bar)\"></i>median time of the stage in a pass</span>"
         "<span><i style=\"background:var(--roof)\"></i>share of it that its bytes would take at the roof</span>"
         "<span>samples: dots, box from quartile to quartile, around the median</span></div><br>\n";
}

}  // namespace

std::string text(std::string_view raw) { return xml_text(raw); }

std::string element(std::string_view tag, std::string_view classes, std::string_view content) {
  return fmt::format("<{0} class=\"{1}\">{2}</{0}>\n", tag, classes, content);
}

std::string chip(std::string_view word) {
  const std::string_view kind = one_of(word, kGood) ? " good" : one_of(word, kBad) ? " bad" : " warn";
  return fmt::format("<span class=\"chip{}\">{}</span>", kind, text(word));
}

std::string check_matrix(const Report& report) {
  std::vector<std::string> names;
  for (const CaseResult& result : report.cases)
    for (const CheckResult& check : result.checks)
      if (std::find(names.begin(), names.end(), check.name) == names.end()) names.push_back(check.name);
  if (names.empty()) return "";
  std::string head = "<tr><th>case</th>", rows;
  for (const std::string& name : names) head += "<th class=\"mark\">" + text(name) + "</th>";
  for (std::size_t i = 0; i < report.cases.size(); ++i) {
    rows += fmt::format("<tr><td><a href=\"#case-{}\">{}</a></td>", i, text(report.cases[i].id));
    for (const std::string& name : names) {
      const auto& checks = report.cases[i].checks;
      const auto check =
          std::find_if(checks.begin(), checks.end(), [&](const CheckResult& c) { return c.name == name; });
      using Status = CheckResult::Status;
      std::string_view kind = "open", sign = "·";
      if (check != checks.end()) {
        if (check->status == Status::passed)
          kind = "yes", sign = "✓";
        else if (check->status == Status::failed || check->status == Status::error)
          kind = "no", sign = "✗";
        else
          sign = "–";
      }
      rows += fmt::format("<td class=\"mark {}\" title=\"{}\">{}</td>", kind,
                          check == checks.end() ? "not asked" : text(check->detail), sign);
    }
    rows += "</tr>\n";
  }
  return "<h2>Checks</h2><div class=\"card scroll\"><table class=\"grid\">" + head + "</tr>\n" + rows +
         "</table><div class=\"legend\"><span>✓ passed</span><span>✗ failed</span><span>– does not apply</span><span>· "
         "not asked</span></div></div>\n";
}

}  // namespace html

std::string render_html(const Report& report, const RenderOptions&) {
  std::string out =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">";
  out += fmt::format("<title>{}</title><style>{}</style></head><body><main>\n", html::text(summary_line(report)),
                     html::style_sheet());
  out += html::header(report) + html::overview(report) + html::check_matrix(report);
  std::string sweeps;
  for (const html::Sweep& sweep : html::find_sweeps(report.cases)) sweeps += html::sweep_section(sweep);
  if (!sweeps.empty()) out += "<h2>Sweeps</h2>\n" + sweeps;
  if (!report.cases.empty()) out += "<h2>Cases</h2>\n" + html::reading_help(report);
  for (std::size_t i = 0; i < report.cases.size(); ++i) out += html::case_section(report.cases[i], i);
  out += html::environment(report);
  out += fmt::format("<footer>{}</footer>\n</main></body></html>\n", html::text(summary_line(report)));
  return out;
}

}  // namespace sdm
