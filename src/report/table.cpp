#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "report/layout.h"
#include "report/render.h"
#include "report/rows.h"

namespace sdm {
namespace {

constexpr std::size_t kLineWidth = 110;

Mark mark_of(CaseStatus status) {
  switch (status) {
    case CaseStatus::ok: return {"✓", Ink::green};
    case CaseStatus::skipped:
    case CaseStatus::not_run: return {"–", Ink::yellow};
    default: return {"✗", Ink::red};
  }
}

Mark mark_of(CheckResult::Status status) {
  using Status = CheckResult::Status;
  switch (status) {
    case Status::passed: return {"✓", Ink::green};
    case Status::failed:
    case Status::error: return {"✗", Ink::red};
    default: return {"–", Ink::yellow};
  }
}

/// One unit for all times of a case, so that the points stand under each other and sizes can be compared by eye.
struct TimeUnit {
  const char* name;
  double per_us;
  int decimals;
};

TimeUnit unit_for(const std::vector<TimingRow>& rows) {
  double longest = 0;
  for (const TimingRow& row : rows) longest = std::max(longest, row.time->median_us);
  if (longest < 1e5) return {"µs", 1, longest < 100 ? 2 : 1};
  if (longest < 1e8) return {"ms", 1e-3, 3};
  return {"s", 1e-6, 3};
}

std::string maybe(const std::optional<double>& value, double factor, int decimals) {
  return value ? with_thousands(*value * factor, decimals) : "";
}

/// The width the stage column needs anywhere in the report: cases then stand in line.
std::size_t label_width(const Report& report) {
  std::size_t widest = 0;
  for (const CaseResult& result : report.cases)
    for (const TimingRow& row : timing_rows(result))
      widest = std::max(widest, display_width(row_label(row)) + (row.is_pass ? 0 : 2));
  return std::min<std::size_t>(widest, 40);
}

std::string timing_table(const CaseResult& result, std::size_t label_columns, const Paint& paint) {
  const std::vector<TimingRow> rows = timing_rows(result);
  if (rows.empty()) return "";
  using Align = TextTable::Align;
  const TimeUnit unit = unit_for(rows);
  TextTable table({{"stage", Align::left, label_columns},
                   {"calls", Align::right, 5},
                   {fmt::format("median {}", unit.name), Align::right, 9},
                   {"q1", Align::right, 9},
                   {"q3", Align::right, 9},
                   {"min", Align::right, 9},
                   {"GB/s", Align::right, 8},
                   {"% roof", Align::right, 6},
                   {"variant", Align::left, 0}});
  bool first = true;
  for (const TimingRow& row : rows) {
    if (row.is_pass && !first) table.add_rule();
    first = false;
    const bool measured = !row.time->samples_us.empty();
    const auto time = [&](double us) { return measured ? with_thousands(us * unit.per_us, unit.decimals) : "–"; };
    table.add_row(
        {(row.is_pass ? "" : "  ") + row_label(row), row.calls ? with_thousands(std::int64_t{*row.calls}) : "",
         time(row.time->median_us), time(row.time->q1_us), time(row.time->q3_us), time(row.time->min_us),
         maybe(row.bytes_per_second, 1e-9, 1), maybe(row.roof_percent, 1, 1), variant_label(row.variant)},
        row.is_pass ? Ink::bold : Ink::plain);
  }
  return table.render(paint, 2);
}

/// Without timings the choices are still of interest.
std::string variant_list(const CaseResult& result) {
  if (!result.passes.empty() || !result.stages.empty() || result.variants.empty()) return "";
  std::vector<std::string> phrases;
  for (const auto& [stage, variant] : result.variants)
    phrases.push_back(fmt::format("{} = {}", stage, variant_label(&variant)));
  return wrap_phrases(phrases, 2, kLineWidth);
}

std::string check_list(const CaseResult& result, const Paint& paint) {
  std::size_t widest = 0;
  for (const CheckResult& check : result.checks) widest = std::max(widest, display_width(one_line(check.name)));
  std::string out;
  for (const CheckResult& check : result.checks) {
    const Mark mark = mark_of(check.status);
    const std::string name = one_line(check.name);
    const bool say_status = check.status != CheckResult::Status::passed && check.status != CheckResult::Status::failed;
    std::string sentence = one_line(check.detail);
    if (say_status) sentence = std::string(name_of(check.status)) + (sentence.empty() ? "" : ": " + sentence);
    std::string text = name + std::string(widest - display_width(name), ' ') + "  " + sentence;
    text.erase(text.find_last_not_of(' ') + 1);
    out += fmt::format("  {} {}\n", paint(mark.ink, mark.sign), text);
    if (!check.rerun.empty())
      out +=
          fmt::format("    {}{}\n", std::string(widest + 2, ' '), paint(Ink::dim, "rerun: " + one_line(check.rerun)));
  }
  return out;
}

std::string case_header(const CaseResult& result, const Paint& paint) {
  const Mark mark = mark_of(result.status);
  std::string line = fmt::format("{} {}  {}", paint(mark.ink, mark.sign), paint(Ink::bold, one_line(result.id)),
                                 paint(mark.ink, name_of(result.status)));
  if (!result.reason.empty()) line += ": " + one_line(result.reason);
  return line + "\n";
}

std::string case_block(const CaseResult& result, std::size_t label_columns, const Paint& paint) {
  std::vector<std::string> params;
  for (const auto& [key, value] : result.params) params.push_back(key + " " + value);
  std::string out = case_header(result, paint);
  // Painted line by line: an escape sequence that spans lines upsets pagers.
  const auto add_dim = [&](const std::string& lines) {
    for (std::size_t begin = 0; begin < lines.size();) {
      const std::size_t end = lines.find('\n', begin);
      out += paint(Ink::dim, lines.substr(begin, end - begin)) + "\n";
      begin = end + 1;
    }
  };
  add_dim(wrap_phrases(params, 2, kLineWidth));
  add_dim(wrap_phrases(fact_phrases(result), 2, kLineWidth));
  add_dim(variant_list(result));
  const std::string timings = timing_table(result, label_columns, paint);
  if (!timings.empty()) out += "\n" + timings;
  for (const std::string& note : timing_notes(result)) out += "  " + paint(Ink::yellow, "! " + one_line(note)) + "\n";
  const std::string checks = check_list(result, paint);
  if (!checks.empty()) out += "\n" + checks;
  for (const std::string& line : determinism_lines(result)) out += "  " + one_line(line) + "\n";
  return out + "\n";
}

}  // namespace

std::string render_table(const Report& report, const RenderOptions& options) {
  const Paint paint(options.color);
  const std::size_t label_columns = label_width(report);
  std::string out = paint(Ink::dim, one_line(title_line(report))) + "\n\n";
  for (const CaseResult& result : report.cases) out += case_block(result, label_columns, paint);
  const Tally sum = tally(report);
  const Ink ink = sum.failed + sum.other > 0 ? Ink::red : sum.skipped > 0 ? Ink::yellow : Ink::green;
  return out + paint(ink, one_line(summary_line(report))) + "\n";
}

}  // namespace sdm
