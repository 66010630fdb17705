// One case of the HTML report.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/statistics.h"
#include "base/text.h"
#include "report/html.h"
#include "report/rows.h"

namespace sdm::html {
namespace {

constexpr std::size_t kMostDots = 120;  ///< samples drawn in a box plot; of more, evenly chosen ones

/// A pass and its stages.
struct Block {
  TimingRow pass;  ///< without `time` where the pass was not timed as a whole
  std::vector<TimingRow> stages;
};

std::vector<Block> blocks_of(const CaseResult& result) {
  std::vector<Block> blocks;
  for (const TimingRow& row : timing_rows(result)) {
    const bool fits =
        !blocks.empty() && !row.is_pass && blocks.back().pass.pass == row.pass && blocks.back().pass.l2 == row.l2;
    if (!fits) {
      Block block;
      block.pass.pass = row.pass, block.pass.l2 = row.l2, block.pass.is_pass = true;
      if (row.is_pass) block.pass = row;
      blocks.push_back(std::move(block));
    }
    if (!row.is_pass) blocks.back().stages.push_back(row);
  }
  return blocks;
}

std::vector<double> finite_sorted(const SampleStats& time) {
  std::vector<double> samples;
  for (const double us : time.samples_us)
    if (std::isfinite(us)) samples.push_back(us);
  std::sort(samples.begin(), samples.end());
  return samples;
}

/// The largest deviation from the median that a box plot of the block shows; what lies further out sits on the edge.
double plot_span(const Block& block) {
  double span = 0.02;
  const auto widen = [&](const TimingRow& row) {
    if (!row.time || row.time->median_us <= 0) return;
    const std::vector<double> samples = finite_sorted(*row.time);
    if (samples.empty()) return;
    span = std::max({span, 1 - samples.front() / row.time->median_us, samples.back() / row.time->median_us - 1});
  };
  for (const TimingRow& row : block.stages) widen(row);
  return std::min(span, 0.5);
}

std::string vertical(double x, double top, double bottom, std::string_view classes) {
  return fmt::format("<line class=\"{}\" x1=\"{:.2f}\" x2=\"{:.2f}\" y1=\"{}\" y2=\"{}\"/>", classes, x, x, top,
                     bottom);
}

/// Samples around their median, +-span: dots, whiskers from min to max, a box from quartile to quartile.
std::string box_plot(const SampleStats& time, double span) {
  const std::vector<double> samples = finite_sorted(time);
  if (samples.empty() || time.median_us <= 0) return "<span class=\"box\"></span>";
  const auto x = [&](double us) { return 50 + 50 * std::clamp((us / time.median_us - 1) / span, -1.0, 1.0); };
  std::string marks = "<line class=\"axis\" x1=\"0\" x2=\"100\" y1=\"9\" y2=\"9\"/>";
  marks += fmt::format("<line x1=\"{:.2f}\" x2=\"{:.2f}\" y1=\"9\" y2=\"9\"/>", x(samples.front()), x(samples.back()));
  marks += fmt::format("<rect x=\"{:.2f}\" y=\"4\" width=\"{:.2f}\" height=\"10\" rx=\"1\"/>", x(time.q1_us),
                       std::max(0.6, x(time.q3_us) - x(time.q1_us)));
  const std::size_t shown = std::min(samples.size(), kMostDots);
  for (std::size_t i = 0; i < shown; ++i)
    marks += vertical(x(samples[shown == 1 ? 0 : i * (samples.size() - 1) / (shown - 1)]), 6, 12, "dot");
  marks += vertical(50, 2, 16, "mid");
  const std::string says =
      fmt::format("{} samples: min {}, quartiles {} – {}, max {}", samples.size(), human_microseconds(samples.front()),
                  human_microseconds(time.q1_us), human_microseconds(time.q3_us), human_microseconds(samples.back()));
  return fmt::format(
      "<svg class=\"box\" viewBox=\"0 0 100 18\" height=\"18\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"{0}\"><title>{0}</title>{1}</svg>",
      text(says), marks);
}

std::string stage_row(const TimingRow& row, double longest, double span) {
  const bool measured = row.time && !row.time->samples_us.empty();
  const double width = measured && longest > 0 ? 100 * row.time->median_us / longest : 0;
  const double roof =
      row.roof_percent && std::isfinite(*row.roof_percent) ? std::clamp(*row.roof_percent, 0.0, 100.0) : 0;
  std::string says = fmt::format("{}: {}", row.stage, measured ? human_microseconds(row.time->median_us) : "not timed");
  if (row.calls) says += fmt::format(", {} calls", *row.calls);
  if (row.bytes_per_second && std::isfinite(*row.bytes_per_second))
    says += fmt::format(", {} GB/s", with_thousands(*row.bytes_per_second * 1e-9, 1));
  if (row.roof_percent) says += fmt::format(", {} % of the roof", with_thousands(*row.roof_percent, 1));
  const std::string variant = variant_label(row.variant);
  return fmt::format(
      "<div class=\"row\" title=\"{}\"><div class=\"n\">{}{}</div><div class=\"bar\"><i style=\"width:{:.2f}%\"><b "
      "style=\"width:{:.1f}%\"></b></i></div>"
      "<div class=\"t\">{}</div><div class=\"r\">{}</div>{}</div>\n",
      text(says), text(row.stage), variant.empty() ? "" : fmt::format("<small>{}</small>", text(variant)), width, roof,
      measured ? text(human_microseconds(row.time->median_us)) : "–",
      row.roof_percent && std::isfinite(*row.roof_percent) ? fmt::format("{:.0f} %", *row.roof_percent) : "",
      measured ? box_plot(*row.time, span) : "<span class=\"box\"></span>");
}

std::string block_html(const Block& block) {
  double longest = 0;
  bool any_roof = false;
  for (const TimingRow& row : block.stages) {
    if (std::isfinite(row.time->median_us)) longest = std::max(longest, row.time->median_us);
    any_roof |= row.roof_percent.has_value();
  }
  const double span = plot_span(block);
  const SampleStats* time = block.pass.time;
  std::string total = "<h4>" + text(row_label(block.pass)) + "</h4>";
  if (time && !time->samples_us.empty()) {
    const double spread = time->median_us > 0 ? 100 * (time->q3_us - time->q1_us) / time->median_us : 0;
    total += fmt::format("<b>{}</b><span>IQR {:.1f} % of {} samples</span>", text(human_microseconds(time->median_us)),
                         spread, time->samples_us.size());
  }
  const bool part = block.pass.pass == "prepare";  // a line of its own below the passes
  std::string out = fmt::format("<div class=\"pass{}\"><div class=\"total\">{}</div>\n", part ? " part" : "", total);
  if (!block.stages.empty())
    out += fmt::format(
        "<div class=\"row key\"><div>stage</div><div class=\"bk\">time</div><div class=\"t\">median</div><div "
        "class=\"r\">{}</div>"
        "<div class=\"sk\">±{:.0f} %</div></div>\n",
        any_roof ? "roof" : "", 100 * span);
  for (const TimingRow& row : block.stages) out += stage_row(row, longest, span);
  return out + "</div>\n";
}

std::string checks_html(const CaseResult& result) {
  std::string rows;
  for (const CheckResult& check : result.checks) {
    std::string detail = text(check.detail);
    if (!check.rerun.empty()) detail += "<br><code>" + text(check.rerun) + "</code>";
    rows += fmt::format("<tr><td>{}</td><td>{}</td><td>{}</td></tr>\n", text(check.name), chip(name_of(check.status)),
                        detail);
  }
  if (rows.empty()) return "";
  return fmt::format(
      "<details{}><summary>Checks ({})</summary><div class=\"scroll\"><table>{}</table></div></details>\n",
      result.status == CaseStatus::failed ? " open" : "", result.checks.size(), rows);
}

std::string determinism_html(const CaseResult& result) {
  if (!result.determinism) return "";
  std::string lines, rows;
  for (const std::string& line : determinism_lines(result)) lines += element("p", "facts", text(line));
  for (const StageDeterminism& row : result.determinism->stages)
    rows += fmt::format("<tr><td>{}</td><td>{}{}</td><td>{}</td><td>{}</td></tr>\n", text(row.stage), text(row.variant),
                        row.chosen ? "" : " (beside)", text(name_of(row.level)), text(row.reason));
  return fmt::format(
      "{}<details><summary>Determinism ({} variants, {} kinds of comparisons)</summary><div "
      "class=\"scroll\"><table>{}</table></div></details>\n",
      lines, result.determinism->stages.size(), result.determinism->evidence.size(), rows);
}

std::string digests_html(const CaseResult& result) {
  std::string rows;
  std::size_t count = 0;
  for (const auto& [stage, tensors] : result.digests)
    for (const auto& [tensor, hex] : tensors) {
      rows += fmt::format("<tr><td>{}</td><td>{}</td><td><code>{}</code></td></tr>\n", text(stage), text(tensor),
                          text(hex));
      ++count;
    }
  if (rows.empty()) return "";
  return fmt::format(
      "<details><summary>Digests (XXH3-128): {}</summary><div "
      "class=\"scroll\"><table>{}</table></div></details>\n",
      count, rows);
}

}  // namespace

std::string case_section(const CaseResult& result, std::size_t index) {
  std::string out = fmt::format("<section class=\"card\" id=\"case-{}\"><div class=\"head\"><h3>{}</h3>{}</div>\n",
                                index, text(result.id), chip(name_of(result.status)));
  if (!result.reason.empty()) out += element("p", "reason", text(result.reason));
  std::string params;
  for (const auto& [key, value] : result.params)
    params += fmt::format("<span>{} <b>{}</b></span> ", text(key), text(value));
  if (!params.empty()) out += element("p", "params", params);
  const std::string facts = join(fact_phrases(result), " · ");
  if (!facts.empty()) out += element("p", "facts", text(facts));
  std::string blocks;
  for (const Block& block : blocks_of(result)) blocks += block_html(block);
  if (!blocks.empty()) out += element("div", "passes", blocks);
  for (const std::string& note : timing_notes(result)) out += element("p", "note", text(note));
  return out + checks_html(result) + determinism_html(result) + digests_html(result) + "</section>\n";
}

}  // namespace sdm::html
