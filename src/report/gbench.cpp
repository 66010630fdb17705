#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/render.h"
#include "report/rows.h"

namespace sdm {
namespace {

using Json = nlohmann::ordered_json;

Json context(const Report& report) {
  const auto host = report.environment.find("hostname");
  return {{"date", report.run.started_at},
          {"host_name", host == report.environment.end() ? "" : host->second},
          {"executable", report.run.argv.empty() ? "sdm-bench" : report.run.argv.front()},
          {"library_build_type", report.tool.build_type == "Debug" ? "debug" : "release"},
          {"sdm_bench_version", report.tool.version},
          {"sdm_bench_git_sha", report.tool.git_sha}};
}

Json entry(const std::string& name) {
  return {{"name", name},     {"run_name", name},      {"run_type", "iteration"},
          {"repetitions", 1}, {"repetition_index", 0}, {"threads", 1}};
}

/// A timing as one iteration entry: real_time is the median, cpu_time the host time of enqueueing it where that was
/// measured and otherwise, as the field may not be missing, the median again.
Json timing(const CaseResult& result, const TimingRow& row) {
  std::string name = fmt::format("{}/{}", result.id, row.pass);
  if (!row.is_pass) name += "/" + row.stage;
  if (!row.l2.empty()) name += "/" + row.l2;
  Json out = entry(name);
  out["iterations"] = row.time->samples_us.size();
  out["real_time"] = row.time->median_us;
  out["cpu_time"] = row.host_us.value_or(row.time->median_us);
  out["time_unit"] = "us";
  if (row.bytes_per_second && std::isfinite(*row.bytes_per_second)) out["bytes_per_second"] = *row.bytes_per_second;
  out["q1_us"] = row.time->q1_us;
  out["q3_us"] = row.time->q3_us;
  out["min_us"] = row.time->min_us;
  return out;
}

}  // namespace

/// https://github.com/google/benchmark, docs/tools.md and user_guide.md ("Output Formats"): what compare.py reads.
std::string render_gbench(const Report& report, const RenderOptions&) {
  Json benchmarks = Json::array();
  for (const CaseResult& result : report.cases) {
    for (const TimingRow& row : timing_rows(result))
      if (!row.time->samples_us.empty()) benchmarks.push_back(timing(result, row));
    if (result.status == CaseStatus::ok) continue;
    Json failed = entry(result.id);
    failed["error_occurred"] = true;
    failed["error_message"] = result.reason.empty() ? std::string(name_of(result.status)) : result.reason;
    benchmarks.push_back(std::move(failed));
  }
  const Json out = {{"context", context(report)}, {"benchmarks", std::move(benchmarks)}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sdm
