#include "report/compare_text.h"

#include <cmath>

#include "base/error.h"
#include "base/text.h"
#include "report/escape.h"
#include "report/layout.h"
#include "report/terminal.h"

namespace sdm {
namespace {

std::string counted(int count, std::string_view what) { return count > 0 ? fmt::format("{} {}", count, what) : ""; }

std::string joined(const std::vector<std::string>& phrases, std::string_view separator) {
  std::vector<std::string> kept;
  for (const std::string& phrase : phrases)
    if (!phrase.empty()) kept.push_back(phrase);
  return join(kept, separator);
}

/// The first few of a long list.
std::string some_of(const std::vector<std::string>& names, std::size_t most) {
  if (names.size() <= most) return join(names);
  return fmt::format("{} and {} more",
                     join(std::vector(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(most))),
                     names.size() - most);
}

Mark compared_mark(const ComparedCase& c) {
  if (c.failed()) return {"✗", Ink::red};
  bool slower = false, open = !c.comparable || !c.lost.empty(), faster = false;
  for (const CompareRow& row : c.rows) {
    slower |= row.verdict == Verdict::slower;
    faster |= row.verdict == Verdict::faster;
    open |= row.verdict == Verdict::ambiguous || row.verdict == Verdict::not_timed;
  }
  if (slower) return {"▲", Ink::red};
  if (c.presence == Presence::added) return {"+", Ink::plain};
  if (open) return {"?", Ink::yellow};
  return faster ? Mark{"▼", Ink::green} : Mark{"✓", Ink::green};
}

Ink verdict_ink(Verdict verdict) {
  switch (verdict) {
    case Verdict::slower: return Ink::red;
    case Verdict::faster: return Ink::green;
    case Verdict::ambiguous:
    case Verdict::not_timed: return Ink::yellow;
    case Verdict::same: return Ink::plain;
  }
  return Ink::plain;
}

std::vector<std::string> row_cells(const CompareRow& row) {
  return {place_text(row),
          row.metric == Metric::median_us || row.metric == Metric::peak_memory_bytes ? ""
                                                                                     : std::string(name_of(row.metric)),
          value_text(row.base, row.metric),
          value_text(row.now, row.metric),
          change_text(row),
          std::string(name_of(row.verdict)),
          row.note};
}

std::string side_line(const MergedSide& side) {
  return fmt::format("{}: {}", some_of(side.files, 4), side.titles.empty() ? "" : side.titles.back());
}

std::string comparison_table(const Comparison& comparison, bool color, bool verbose) {
  const Paint paint(color);
  std::string out = paint(Ink::dim, one_line(fmt::format("base  {}", side_line(comparison.base)))) + "\n";
  out += paint(Ink::dim, one_line(fmt::format("new   {}", side_line(comparison.now)))) + "\n";
  if (!comparison.rules.digests_only)
    out += paint(Ink::dim, fmt::format("a change counts {}", limits_text(comparison.rules))) + "\n";
  out += "\n";
  if (!comparison.refused.empty())
    out += paint(Ink::yellow, fmt::format("! {}", one_line(comparison.refused))) + "\n\n";
  for (const ComparedCase& c : comparison.cases) {
    const Mark mark = compared_mark(c);
    std::vector<std::string> phrases = {c.presence == Presence::both && c.comparable ? digest_text(c) : "",
                                        count_text(c)};
    for (const std::string& note : case_notes(c)) phrases.push_back(note);
    out += fmt::format("{} {}  {}\n", paint(mark.ink, mark.sign), paint(Ink::bold, one_line(c.id)),
                       one_line(joined(phrases, " · ")));
    using Align = TextTable::Align;
    TextTable table({{"stage", Align::left, 20},
                     {"metric", Align::left, 0},
                     {"base", Align::right, 9},
                     {"new", Align::right, 9},
                     {"change", Align::right, 8},
                     {"verdict", Align::left, 0},
                     {"why", Align::left, 0}});
    const auto rows = shown_rows(c, verbose);
    for (const CompareRow* row : rows) table.add_row(row_cells(*row), verdict_ink(row->verdict));
    if (!rows.empty()) out += table.render(paint, 4) + "\n";
  }
  const Ink ink = comparison.outcome == Outcome::good           ? Ink::green
                  : comparison.outcome == Outcome::inconclusive ? Ink::yellow
                                                                : Ink::red;
  out += fmt::format("\n{}\n", paint(ink, verdict_line(comparison)));
  if (!comparison.more_samples.empty())
    out += "\nmore samples of the ambiguous cases, to be added to the new side:\n  " +
           one_line(comparison.more_samples) + "\n";
  return out;
}

std::string comparison_md(const Comparison& comparison, bool verbose) {
  std::string out = fmt::format("**{}**\n\nbase {}\n\nnew {}\n\n", markdown_text(verdict_line(comparison)),
                                markdown_text(side_line(comparison.base)), markdown_text(side_line(comparison.now)));
  if (!comparison.rules.digests_only)
    out += fmt::format("A change counts {}.\n\n", markdown_text(limits_text(comparison.rules)));
  if (!comparison.refused.empty()) out += markdown_text(comparison.refused) + "\n\n";
  out += "| case | digests | times | notes |\n|:--|:--|:--|:--|\n";
  for (const ComparedCase& c : comparison.cases)
    out += fmt::format("| {} | {} | {} | {} |\n", markdown_text(c.id), markdown_text(digest_text(c)),
                       markdown_text(count_text(c)), markdown_text(join(case_notes(c), "; ")));
  std::string rows;
  for (const ComparedCase& c : comparison.cases)
    for (const CompareRow* row : shown_rows(c, verbose)) {
      rows += fmt::format("| {} |", markdown_text(c.id));
      for (const std::string& cell : row_cells(*row)) rows += fmt::format(" {} |", markdown_text(cell));
      rows += "\n";
    }
  if (!rows.empty())
    out +=
        "\n| case | stage | metric | base | new | change | verdict | why |\n|:--|:--|:--|--:|--:|--:|:--|:--|\n" + rows;
  if (!comparison.more_samples.empty())
    out += "\nMore samples of the ambiguous cases:\n\n    " + one_line(comparison.more_samples) + "\n";
  return out;
}

}  // namespace

std::string value_text(const Measured& side, Metric metric) {
  if (!side.value) return "–";
  switch (metric) {
    case Metric::bytes_per_second: return with_thousands(*side.value * 1e-9, 1) + " GB/s";
    case Metric::roof_percent: return with_thousands(*side.value, 1) + " %";
    case Metric::peak_memory_bytes: return human_bytes(*side.value);
    default: return human_microseconds(*side.value);
  }
}

std::string change_text(const CompareRow& row) {
  if (!row.relative) return "";
  return fmt::format("{:+.1f} %", 100 * *row.relative);
}

std::string place_text(const CompareRow& row) {
  if (row.pass.empty()) return "memory";
  const std::string& place = row.stage.empty() ? row.pass : row.stage;
  return row.l2.empty() ? place : fmt::format("{} ({})", place, row.l2);
}

std::string count_text(const ComparedCase& c) {
  int counts[5] = {};
  for (const CompareRow& row : c.rows) ++counts[static_cast<std::size_t>(row.verdict)];
  const auto of = [&](Verdict v, std::string_view what) { return counted(counts[static_cast<std::size_t>(v)], what); };
  return joined({of(Verdict::slower, "slower"), of(Verdict::ambiguous, "ambiguous"), of(Verdict::faster, "faster"),
                 of(Verdict::same, "same"), of(Verdict::not_timed, "not timed")},
                ", ");
}

std::string digest_text(const ComparedCase& c) {
  if (c.digests == DigestVerdict::differ) return "digests DIFFER in " + some_of(c.differing, 3);
  if (c.digests == DigestVerdict::not_compared) return "digests not compared: " + c.digest_note;
  return fmt::format("digests equal ({} tensors)", c.tensors);
}

std::vector<std::string> case_notes(const ComparedCase& c) {
  std::vector<std::string> notes;
  const auto with_reason = [&](std::string text) { return c.reason.empty() ? text : text + ": " + c.reason; };
  if (c.presence == Presence::missing) notes.push_back("missing from the new results");
  if (c.presence == Presence::added) notes.push_back(with_reason(fmt::format("added ({})", name_of(c.new_status))));
  if (c.presence == Presence::both && !c.comparable)
    notes.push_back(c.new_status == CaseStatus::failed ? c.reason : "not comparable: " + c.reason);
  if (!c.lost.empty()) notes.push_back("no longer in the results: " + some_of(c.lost, 3));
  return notes;
}

std::string verdict_line(const Comparison& comparison) {
  const CompareTally& t = comparison.tally;
  const std::string cases =
      joined({fmt::format("{} {}", t.cases, t.cases == 1 ? "case" : "cases"), counted(t.missing, "missing"),
              counted(t.added, "added"), counted(t.failed, "failed"), counted(t.not_comparable, "not comparable")},
             ", ");
  const std::string digests = joined({counted(t.digests_equal, "equal"), counted(t.digests_differ, "DIFFER"),
                                      counted(t.digests_not_compared, "not compared")},
                                     ", ");
  const std::string times =
      joined({counted(t.slower, "slower"), counted(t.ambiguous, "ambiguous"), counted(t.faster, "faster"),
              counted(t.same, "same"), counted(t.not_timed, "not timed")},
             ", ");
  const auto labelled = [](const char* label, const std::string& value) {
    return value.empty() ? std::string() : fmt::format("{}: {}", label, value);
  };
  return joined({cases, labelled("digests", digests), labelled("times", times),
                 fmt::format("verdict: {}", name_of(comparison.outcome))},
                " · ");
}

std::string limits_text(const CompareRules& rules) {
  std::vector<std::string> parts;
  for (const auto& [metric, limit] : rules.metrics) {
    if (limit.direction == Direction::off) continue;
    const bool time = std::string_view(name_of(metric)).ends_with("_us");
    parts.push_back(fmt::format("past {:g} % and {:g}{} ({})", 100 * limit.relative, limit.absolute, time ? " µs" : "",
                                name_of(metric)));
  }
  std::string text = join(parts, "; ");
  if (!rules.stages.empty()) text += "; other limits for some stages";
  return text.empty() ? "nowhere" : text;
}

std::vector<const CompareRow*> shown_rows(const ComparedCase& c, bool everything) {
  std::vector<const CompareRow*> rows;
  for (const CompareRow& row : c.rows)
    if (everything || row.verdict != Verdict::same || (row.stage.empty() && row.metric == Metric::median_us))
      rows.push_back(&row);
  return rows;
}

void check_comparison_format(std::string_view format) {
  const std::vector<std::string> names = {"table", "md", "json", "junit"};
  if (std::find(names.begin(), names.end(), format) != names.end()) return;
  throw UserError(
      fmt::format("a comparison has no format '{}' (formats: {}){}", format, join(names), did_you_mean(format, names)));
}

std::string render_comparison(const Comparison& comparison, std::string_view format, bool color, bool verbose) {
  if (format == "table") return comparison_table(comparison, color, verbose);
  if (format == "md") return comparison_md(comparison, verbose);
  if (format == "json") return comparison_json(comparison);
  check_comparison_format(format);
  return comparison_junit(comparison);
}

}  // namespace sdm
