#include <cmath>
#include <set>

#include "base/error.h"
#include "report/render.h"
#include "report/rows.h"

namespace sdm {
namespace {

/// RFC 4180: fields with a comma, quote or line break are quoted, quotes doubled.
std::string quoted(const std::string& field) {
  if (field.find_first_of(",\"\r\n") == std::string::npos) return field;
  std::string out(1, '"');
  for (const char c : field) {
    if (c == '"') out += '"';
    out += c;
  }
  out += '"';
  return out;
}

std::string line_of(const std::vector<std::string>& fields) {
  std::string out;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) out += ',';
    out += quoted(fields[i]);
  }
  return out + "\r\n";
}

/// Shortest digits that read back as the same number; empty for what is missing or not finite.
std::string number_cell(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? fmt::format("{}", *value) : "";
}

std::vector<std::string> timing_fields(const TimingRow& row) {
  const SampleStats& time = *row.time;
  const bool measured = !time.samples_us.empty();
  const auto us = [&](double value) { return measured ? number_cell(value) : ""; };
  return {row.is_pass ? "pass" : "stage",
          row.pass,
          row.l2,
          row.stage,
          row.variant ? row.variant->name : "",
          row.variant ? row.variant->launch : "",
          row.variant ? row.variant->guarantee : "",
          row.calls ? fmt::format("{}", *row.calls) : "",
          us(time.median_us),
          us(time.q1_us),
          us(time.q3_us),
          us(time.min_us),
          us(time.p95_us),
          fmt::format("{}", time.samples_us.size()),
          fmt::format("{}", time.throttled),
          time.converged ? "true" : "false",
          number_cell(row.host_us),
          number_cell(row.host_us_per_step),
          number_cell(row.bytes_moved),
          number_cell(row.flops),
          number_cell(row.bytes_per_second),
          number_cell(row.roof_percent)};
}

std::vector<std::string> timing_headers() {
  return {"kind",        "pass",    "l2",
          "stage",       "variant", "launch",
          "guarantee",   "calls",   "median_us",
          "q1_us",       "q3_us",   "min_us",
          "p95_us",      "samples", "throttled_samples",
          "converged",   "host_us", "host_us_per_step",
          "bytes_moved", "flops",   "bytes_per_second",
          "roof_percent"};
}

}  // namespace

/// A row of kind `pass` per timed pass, `stage` per stage in it, and one of kind `case` for a case without timings.
/// The workload's parameters are the last columns, `param.NAME`.
std::string render_csv(const Report& report, const RenderOptions&) {
  std::set<std::string> params;
  for (const CaseResult& result : report.cases)
    for (const auto& [key, value] : result.params) params.insert(key);
  const std::vector<std::string> timing = timing_headers();

  std::vector<std::string> headers = {"case", "name", "status", "reason", "device", "peak_memory_bytes"};
  headers.insert(headers.end(), timing.begin(), timing.end());
  for (const std::string& key : params) headers.push_back("param." + key);
  std::string out = line_of(headers);

  for (const CaseResult& result : report.cases) {
    const auto add = [&](const std::vector<std::string>& measured) {
      std::vector<std::string> fields = {
          result.id,     result.name,   std::string(name_of(result.status)),
          result.reason, result.device, result.peak_memory_bytes ? fmt::format("{}", *result.peak_memory_bytes) : ""};
      fields.insert(fields.end(), measured.begin(), measured.end());
      for (const std::string& key : params) {
        const auto found = result.params.find(key);
        fields.push_back(found == result.params.end() ? "" : found->second);
      }
      out += line_of(fields);
    };
    const std::vector<TimingRow> rows = timing_rows(result);
    for (const TimingRow& row : rows) add(timing_fields(row));
    if (rows.empty()) {
      std::vector<std::string> none = {"case"};
      none.resize(timing.size());
      add(none);
    }
  }
  return out;
}

}  // namespace sdm
