#include "base/error.h"
#include "base/text.h"
#include "report/escape.h"
#include "report/render.h"
#include "report/rows.h"

namespace sdm {
namespace {

std::string row_line(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& cell : cells) out += " " + cell + " |";
  return out + "\n";
}

std::string scaled(const std::optional<double>& value, double factor) {
  return value ? with_thousands(*value * factor, 1) : "";
}

std::string timings(const CaseResult& result) {
  const std::vector<TimingRow> rows = timing_rows(result);
  if (rows.empty()) return "";
  std::string out = row_line({"stage", "calls", "median", "q1 – q3", "min", "GB/s", "% roof", "variant"});
  out += "|:--|--:|--:|--:|--:|--:|--:|:--|\n";
  for (const TimingRow& row : rows) {
    const SampleStats& time = *row.time;
    const bool measured = !time.samples_us.empty();
    const std::string label = markdown_text(row_label(row));
    out += row_line(
        {row.is_pass ? "**" + label + "**" : label, row.calls ? with_thousands(std::int64_t{*row.calls}) : "",
         measured ? human_microseconds(time.median_us) : "–",
         measured ? fmt::format("{} – {}", human_microseconds(time.q1_us), human_microseconds(time.q3_us)) : "–",
         measured ? human_microseconds(time.min_us) : "–", scaled(row.bytes_per_second, 1e-9),
         scaled(row.roof_percent, 1), markdown_text(variant_label(row.variant))});
  }
  return out + "\n";
}

std::string checks(const CaseResult& result) {
  if (result.checks.empty()) return "";
  std::string out = row_line({"check", "status", "detail"}) + "|:--|:--|:--|\n";
  for (const CheckResult& check : result.checks) {
    std::string detail = markdown_text(check.detail);
    if (!check.rerun.empty())
      detail += fmt::format("{}rerun: {}", detail.empty() ? "" : "<br>", markdown_text(check.rerun));
    out += row_line({markdown_text(check.name), markdown_text(std::string(name_of(check.status))), detail});
  }
  return out + "\n";
}

}  // namespace

std::string render_markdown(const Report& report, const RenderOptions&) {
  std::string out = markdown_text(title_line(report)) + "\n\n" + markdown_text(summary_line(report)) + "\n\n";
  for (const CaseResult& result : report.cases) {
    out += fmt::format("### {}\n\n**{}**{}\n\n", markdown_text(result.id),
                       markdown_text(std::string(name_of(result.status))),
                       result.reason.empty() ? "" : ": " + markdown_text(result.reason));
    const std::string facts = join(fact_phrases(result), " · ");
    if (!facts.empty()) out += markdown_text(facts) + "\n\n";
    out += timings(result);
    for (const std::string& note : timing_notes(result)) out += "Note: " + markdown_text(note) + "\n\n";
    out += checks(result);
    for (const std::string& line : determinism_lines(result)) out += "* " + markdown_text(line) + "\n";
    if (result.determinism) out += "\n";
  }
  return out;
}

}  // namespace sdm
