#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "report/result.h"

// The parts of the HTML report; render_html (report/render.h) puts them together. Every part escapes its text and
// fetches nothing: one file that opens anywhere, also without a network, on a phone and in print.

namespace sdm::html {

/// Escaped text.
std::string text(std::string_view raw);

/// `<tag class="..">content</tag>`; content is HTML.
std::string element(std::string_view tag, std::string_view classes, std::string_view content);

/// A coloured word: "ok", "failed", ..
std::string chip(std::string_view word);

/// The style sheet: light and dark by the reader's preference, light in print.
std::string_view style_sheet();

/// A case: status, workload, times as bars, samples as box plots, checks, digests. `index` makes the anchor
/// "case-<index>".
std::string case_section(const CaseResult& result, std::size_t index);

/// A matrix of cases and checks; empty without checks.
std::string check_matrix(const Report& report);

/// Cases that differ in one numeric parameter.
struct Sweep {
  struct Point {
    double x;
    const CaseResult* result;
  };
  std::string param;          ///< "chunk"
  std::string where;          ///< the case id without the parameter
  std::vector<Point> points;  ///< ascending in x, at least two
};
std::vector<Sweep> find_sweeps(const std::vector<CaseResult>& cases);

/// Two line charts: the passes, and the slowest stages.
std::string sweep_section(const Sweep& sweep);

}  // namespace sdm::html
