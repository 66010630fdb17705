#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/result.h"

namespace sdm {

struct RenderOptions {
  bool color = false;  ///< only `table` has colours
};

/// A report as text that ends with a line break.
std::string render_table(const Report& report, const RenderOptions& options);     ///< for people on a terminal
std::string render_markdown(const Report& report, const RenderOptions& options);  ///< GitHub-flavoured tables
std::string render_csv(const Report& report, const RenderOptions& options);      ///< RFC 4180, a row per case and stage
std::string render_json(const Report& report, const RenderOptions& options);     ///< the result file, report/json.h
std::string render_jsonl(const Report& report, const RenderOptions& options);    ///< a line per case, as in the journal
std::string render_junit(const Report& report, const RenderOptions& options);    ///< a testcase per case and check
std::string render_gbench(const Report& report, const RenderOptions& options);   ///< google-benchmark's JSON
std::string render_bencher(const Report& report, const RenderOptions& options);  ///< Bencher Metric Format
std::string render_html(const Report& report, const RenderOptions& options);     ///< one self-contained page

struct ReportFormat {
  std::string_view name;
  std::string_view what;  ///< for --help
  std::string (*render)(const Report&, const RenderOptions&);
};

std::span<const ReportFormat> report_formats();

/// Throws UserError with the legal names and a did-you-mean for a format that does not exist.
const ReportFormat& report_format(std::string_view name);
std::string render(const Report& report, std::string_view format, const RenderOptions& options = {});

}  // namespace sdm
