#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/json.h"
#include "report/json_field.h"

namespace sdm {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

template <typename T>
Json number(const std::optional<T>& value) {
  return value ? number(*value) : Json(nullptr);
}
Json number(const std::optional<int>& value) { return value ? Json(*value) : Json(nullptr); }

/// 64-bit integers are strings: JSON readers that hold numbers as doubles would round them.
Json integer(std::int64_t value) { return fmt::format("{}", value); }
Json integer(const std::optional<std::uint64_t>& value) {
  return value ? Json(fmt::format("{}", *value)) : Json(nullptr);
}

Json numbers(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(number(value));
  return list;
}

void add_time(Json& out, const SampleStats& time) {
  const bool any = !time.samples_us.empty();
  const auto value = [&](double us) { return any ? number(us) : Json(nullptr); };
  out["median_us"] = value(time.median_us);
  out["q1_us"] = value(time.q1_us);
  out["q3_us"] = value(time.q3_us);
  out["min_us"] = value(time.min_us);
  out["p95_us"] = value(time.p95_us);
  out["samples"] = numbers(time.samples_us);
  out["throttled_samples"] = time.throttled;
  out["converged"] = time.converged;
}

Json pass_json(const PassTiming& pass) {
  Json out = {{"name", pass.name}, {"l2", pass.l2}};
  add_time(out, pass.time);
  out["host_us"] = number(pass.host_us);
  if (pass.host_us_per_step) out["host_us_per_step"] = number(*pass.host_us_per_step);
  out["bytes_moved"] = number(pass.bytes_moved);
  out["flops"] = number(pass.flops);
  out["bytes_per_second"] = number(pass.bytes_per_second);
  return out;
}

Json stage_json(const StageTiming& stage) {
  Json out = {{"name", stage.name}, {"pass", stage.pass}, {"l2", stage.l2}, {"calls", stage.calls}};
  add_time(out, stage.time);
  out["bytes_moved"] = number(stage.bytes_moved);
  out["flops"] = number(stage.flops);
  out["bytes_per_second"] = number(stage.bytes_per_second);
  out["roof_percent"] = number(stage.roof_percent);
  return out;
}

Json check_json(const CheckResult& check) {
  return {{"name", check.name},
          {"status", name_of(check.status)},
          {"detail", text_or_null(check.detail)},
          {"rerun", text_or_null(check.rerun)}};
}

Json variants_json(const std::map<std::string, ResolvedVariant>& variants) {
  Json out = Json::object();
  for (const auto& [stage, variant] : variants)
    out[stage] = {{"name", variant.name},
                  {"launch", text_or_null(variant.launch)},
                  {"guarantee", text_or_null(variant.guarantee)}};
  return out;
}

Json facts_json(const std::optional<WorkloadFacts>& facts) {
  if (!facts) return nullptr;
  return {{"write_entries", integer(facts->write_entries)},
          {"read_entries", integer(facts->read_entries)},
          {"write_groups", integer(facts->write_groups)},
          {"read_groups", integer(facts->read_groups)},
          {"write_singleton_share", number(facts->write_singleton_share)},
          {"read_singleton_share", number(facts->read_singleton_share)},
          {"longest_write_group", integer(facts->longest_write_group)},
          {"longest_read_group", integer(facts->longest_read_group)},
          {"touched_rows", integer(facts->touched_rows)},
          {"slot_coverage", number(facts->slot_coverage)}};
}

template <typename List, typename ToJson>
Json list_json(const List& list, ToJson&& to_json_of_one) {
  Json out = Json::array();
  for (const auto& item : list) out.push_back(to_json_of_one(item));
  return out;
}

Json determinism_json(const Determinism& determinism) {
  Json out = Json::object();
  out["stages"] = list_json(determinism.stages, [](const StageDeterminism& row) -> Json {
    return {{"stage", row.stage},
            {"variant", row.variant},
            {"chosen", row.chosen},
            {"level", name_of(row.level)},
            {"reason", text_or_null(row.reason)}};
  });
  out["evidence"] = list_json(determinism.evidence, [](const DeterminismEvidence& seen) -> Json {
    return {{"check", seen.check}, {"level", name_of(seen.level)}, {"held", seen.held}};
  });
  out["prices"] = list_json(determinism.prices, [](const DeterminismPrice& price) -> Json {
    return {{"stage", price.stage},
            {"pass", price.pass},
            {"deterministic", price.deterministic},
            {"baseline", price.baseline},
            {"deterministic_us", number(price.deterministic_us)},
            {"baseline_us", number(price.baseline_us)},
            {"ratio", number(price.ratio())},
            {"baseline_varied", price.varied}};
  });
  return out;
}

Json case_json(const CaseResult& result) {
  Json geometry = Json::object();
  for (const auto& [name, value] : result.geometry) geometry[name] = integer(value);
  Json out = {{"id", result.id}, {"name", result.name}};
  out["params"] = result.params.empty() ? Json::object() : Json(result.params);
  out["status"] = name_of(result.status);
  out["reason"] = text_or_null(result.reason);
  out["device"] = text_or_null(result.device);
  out["launch"] = text_or_null(result.launch);
  out["geometry"] = std::move(geometry);
  out["variants"] = variants_json(result.variants);
  out["checks"] = list_json(result.checks, check_json);
  out["digests"] = result.digests.empty() ? Json::object() : Json(result.digests);
  out["passes"] = list_json(result.passes, pass_json);
  out["stages"] = list_json(result.stages, stage_json);
  out["peak_memory_bytes"] = integer(result.peak_memory_bytes);
  out["timer_floor_us"] = number(result.timer_floor_us);
  out["wall_seconds"] = number(result.wall_seconds);
  if (result.aa_spread) out["aa_spread"] = number(*result.aa_spread);  // only where it was asked for
  out["workload_facts"] = facts_json(result.facts);
  if (result.determinism) out["determinism"] = determinism_json(*result.determinism);
  return out;
}

Json tool_json(const ToolInfo& tool) {
  return {{"version", tool.version},
          {"git_sha", text_or_null(tool.git_sha)},
          {"dirty", tool.dirty},
          {"build_type", tool.build_type},
          {"compiler", tool.compiler},
          {"toolkit", text_or_null(tool.toolkit)},
          {"flags", text_or_null(tool.flags)},
          {"sm_list", tool.sm_list},
          {"contract_version", tool.contract_version}};
}

Json device_json(const DeviceInfo& device) {
  return {{"kind", device.kind},
          {"name", device.name},
          {"uuid", text_or_null(device.uuid)},
          {"pci_id", text_or_null(device.pci_id)},
          {"driver", text_or_null(device.driver)},
          {"compute_capability", number(device.compute_capability)},
          {"multiprocessors", number(device.multiprocessors)},
          {"memory_bytes", integer(device.memory_bytes)},
          {"l2_bytes", integer(device.l2_bytes)},
          {"sm_clock_mhz", number(device.sm_clock_mhz)},
          {"max_sm_clock_mhz", number(device.max_sm_clock_mhz)},
          {"memory_clock_mhz", number(device.memory_clock_mhz)},
          {"temperature_c", number(device.temperature_c)},
          {"throttle_reasons", device.throttle_reasons},
          {"other_processes", number(device.other_processes)}};
}

Json roof_json(const RoofPoint& point) {
  return {{"kind", point.kind},
          {"row_bytes", integer(point.row_bytes)},
          {"bytes_per_second", number(point.bytes_per_second)}};
}

/// Everything but the cases.
Json frame_json(const Report& report) {
  Json out = {{"schema", report.schema}, {"tool", tool_json(report.tool)}};
  out["run"] = {{"id", report.run.id},
                {"started_at", text_or_null(report.run.started_at)},
                {"finished_at", text_or_null(report.run.finished_at)},
                {"argv", report.run.argv},
                {"status", report.run.status}};
  out["environment"] = report.environment.empty() ? Json::object() : Json(report.environment);
  out["devices"] = list_json(report.devices, device_json);
  out["roof"] = list_json(report.roof, roof_json);
  SDM_REQUIRE(report.effective_config.empty() || Json::accept(report.effective_config), "the config is no JSON: {}",
              report.effective_config);
  out["effective_config"] = report.effective_config.empty() ? Json(nullptr) : Json::parse(report.effective_config);
  return out;
}

std::string dump(const Json& json, int indent) { return json.dump(indent, ' ', false, Json::error_handler_t::replace); }

}  // namespace

std::string to_json(const Report& report) {
  Json out = frame_json(report);
  out["cases"] = list_json(report.cases, case_json);
  return dump(out, 2) + "\n";
}

std::string case_to_json_line(const CaseResult& result, const std::string& run_id) {
  Json out = {{"schema", kResultSchema}, {"run_id", text_or_null(run_id)}};
  out.update(case_json(result));
  return dump(out, -1);
}

std::string journal_header(const Report& report) {
  Json out = frame_json(report);
  out["cases"] = Json::array();
  return dump(out, -1);
}

}  // namespace sdm
