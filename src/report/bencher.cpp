#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/render.h"
#include "report/rows.h"

namespace sdm {
namespace {

using Json = nlohmann::ordered_json;

Json bounded(double value, double low, double high) {
  return {{"value", value}, {"lower_value", low}, {"upper_value", high}};
}

/// Bencher takes nanoseconds for its built-in measure "latency", and the quartiles as bounds; bytes-per-second is a
/// measure of its own (its "throughput" counts operations).
Json metrics(const TimingRow& row) {
  Json out = {{"latency", bounded(1e3 * row.time->median_us, 1e3 * row.time->q1_us, 1e3 * row.time->q3_us)}};
  if (row.bytes_per_second && std::isfinite(*row.bytes_per_second))
    out["bytes-per-second"] = {{"value", *row.bytes_per_second}};
  return out;
}

}  // namespace

/// Bencher Metric Format: benchmark name -> measure -> metric
/// (https://bencher.dev/docs/reference/bencher-metric-format/). Names are <case>/<pass>[/<stage>][/<cache mode>], as in
/// the google-benchmark form.
std::string render_bencher(const Report& report, const RenderOptions&) {
  Json out = Json::object();
  for (const CaseResult& result : report.cases)
    for (const TimingRow& row : timing_rows(result)) {
      if (row.time->samples_us.empty() || !std::isfinite(row.time->median_us)) continue;
      std::string name = fmt::format("{}/{}", result.id, row.pass);
      if (!row.is_pass) name += "/" + row.stage;
      if (!row.l2.empty()) name += "/" + row.l2;
      out[name] = metrics(row);
    }
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sdm
