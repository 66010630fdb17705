#include "report/render.h"

#include "base/error.h"
#include "base/text.h"
#include "report/json.h"

namespace sdm {
namespace {

constexpr ReportFormat kFormats[] = {
    {"table", "aligned tables for people", render_table},
    {"md", "Markdown tables", render_markdown},
    {"csv", "one row per case and stage (RFC 4180)", render_csv},
    {"json", "the result file itself", render_json},
    {"jsonl", "one JSON line per case", render_jsonl},
    {"junit", "JUnit XML: a test case per case and check", render_junit},
    {"gbench", "google-benchmark JSON, for its compare.py", render_gbench},
    {"bmf", "Bencher Metric Format", render_bencher},
    {"html", "one self-contained page with plots", render_html},
};

}  // namespace

std::span<const ReportFormat> report_formats() { return kFormats; }

const ReportFormat& report_format(std::string_view name) {
  std::vector<std::string> names;
  for (const ReportFormat& format : kFormats) {
    if (format.name == name) return format;
    names.emplace_back(format.name);
  }
  throw UserError(fmt::format("there is no format '{}' (formats: {}){}", name, join(names), did_you_mean(name, names)));
}

std::string render(const Report& report, std::string_view format, const RenderOptions& options) {
  return report_format(format).render(report, options);
}

std::string render_json(const Report& report, const RenderOptions&) { return to_json(report); }

std::string render_jsonl(const Report& report, const RenderOptions&) {
  std::string out;
  for (const CaseResult& result : report.cases) out += case_to_json_line(result, report.run.id) + "\n";
  return out;
}

}  // namespace sdm
