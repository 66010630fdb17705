#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "io/atomic_file.h"
#include "io/journal.h"
#include "report/json.h"
#include "report/json_field.h"

namespace sdm {
namespace {

using Json = JsonField::Json;

/// Far deeper than a result or the config inside it. The JSON library's writer calls itself once a level, so that a
/// hostile file of brackets would exhaust the stack.
constexpr int kDeepest = 100;

bool too_deep(std::string_view text) {
  int depth = 0;
  bool in_text = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_text) {
      if (c == '\\') ++i;
      if (c == '"') in_text = false;
    } else if (c == '"') {
      in_text = true;
    } else if (c == '{' || c == '[') {
      if (++depth > kDeepest) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

Json parse(std::string_view text, const std::string& file) {
  if (too_deep(text)) throw UserError(fmt::format("{} is nested deeper than {} levels", file, kDeepest));
  try {
    return Json::parse(text);
  } catch (const Json::parse_error& error) {
    throw UserError(fmt::format("{} is not valid JSON (at byte {})", file, error.byte));
  } catch (const Json::exception&) {
    throw UserError(fmt::format("{} is not valid JSON (it holds a number that is out of range)", file));
  }
}

/// The enumerator whose name is the field's text; the enumerators are 0 .. kLast.
template <typename Enum, Enum kLast>
Enum enumerator(const JsonField& field) {
  const std::string text = field.text();
  std::vector<std::string> names;
  for (int i = 0; i <= static_cast<int>(kLast); ++i) {
    names.emplace_back(name_of(static_cast<Enum>(i)));
    if (names.back() == text) return static_cast<Enum>(i);
  }
  field.expected(fmt::format("one of {}", join(names)));
}

void check_schema(const JsonField& document) {
  if (!document.json().is_object()) document.expected("an object");
  const int schema = document.at("schema").small_integer();
  if (schema != kResultSchema)
    document.at("schema").fail(fmt::format("is {}; this build reads schema {}", schema, kResultSchema));
}

SampleStats read_time(const JsonField& field) {
  SampleStats time;
  for (const JsonField& sample : field.at("samples").items())
    time.samples_us.push_back(sample.number_or_null().value_or(std::numeric_limits<double>::quiet_NaN()));
  const bool any = !time.samples_us.empty();
  const auto value = [&](const char* key) {
    const std::optional<double> us = field.at(key).number_or_null();
    if (any && !us) field.at(key).expected("a number, as there are samples");
    return us.value_or(0);
  };
  time.median_us = value("median_us");
  time.q1_us = value("q1_us");
  time.q3_us = value("q3_us");
  time.min_us = value("min_us");
  time.p95_us = value("p95_us");
  time.throttled = field.at("throttled_samples").small_integer();
  time.converged = field.at("converged").boolean();
  return time;
}

PassTiming read_pass(const JsonField& field) {
  PassTiming pass{.name = field.at("name").text(),
                  .l2 = field.at("l2").text(),
                  .time = read_time(field),
                  .host_us = field.at("host_us").number_or_null(),
                  .bytes_moved = field.at("bytes_moved").number_or_null(),
                  .flops = field.at("flops").number_or_null(),
                  .bytes_per_second = field.at("bytes_per_second").number_or_null()};
  if (field.json().contains("host_us_per_step")) pass.host_us_per_step = field.at("host_us_per_step").number_or_null();
  return pass;
}

StageTiming read_stage(const JsonField& field) {
  return {.name = field.at("name").text(),
          .pass = field.at("pass").text(),
          .l2 = field.at("l2").text(),
          .calls = field.at("calls").small_integer(),
          .time = read_time(field),
          .bytes_moved = field.at("bytes_moved").number_or_null(),
          .flops = field.at("flops").number_or_null(),
          .bytes_per_second = field.at("bytes_per_second").number_or_null(),
          .roof_percent = field.at("roof_percent").number_or_null()};
}

CheckResult read_check(const JsonField& field) {
  using Status = CheckResult::Status;
  return {.name = field.at("name").text(),
          .status = enumerator<Status, Status::not_run>(field.at("status")),
          .detail = field.at("detail").text_or_empty(),
          .rerun = field.at("rerun").text_or_empty()};
}

ResolvedVariant read_variant(const JsonField& field) {
  return {.name = field.at("name").text(),
          .launch = field.at("launch").text_or_empty(),
          .guarantee = field.at("guarantee").text_or_empty()};
}

std::optional<WorkloadFacts> read_facts(const JsonField& field) {
  if (field.is_null()) return std::nullopt;
  return WorkloadFacts{.write_entries = field.at("write_entries").integer(),
                       .read_entries = field.at("read_entries").integer(),
                       .write_groups = field.at("write_groups").integer(),
                       .read_groups = field.at("read_groups").integer(),
                       .write_singleton_share = field.at("write_singleton_share").number_or_null().value_or(0),
                       .read_singleton_share = field.at("read_singleton_share").number_or_null().value_or(0),
                       .longest_write_group = field.at("longest_write_group").integer(),
                       .longest_read_group = field.at("longest_read_group").integer(),
                       .touched_rows = field.at("touched_rows").integer(),
                       .slot_coverage = field.at("slot_coverage").number_or_null().value_or(0)};
}

Determinism read_determinism(const JsonField& field) {
  using Level = DeterminismLevel;
  Determinism out;
  for (const JsonField& row : field.at("stages").items())
    out.stages.push_back({.stage = row.at("stage").text(),
                          .variant = row.at("variant").text(),
                          .chosen = row.at("chosen").boolean(),
                          .level = enumerator<Level, Level::cpu_equal>(row.at("level")),
                          .reason = row.at("reason").text_or_empty()});
  for (const JsonField& seen : field.at("evidence").items())
    out.evidence.push_back({.check = seen.at("check").text(),
                            .level = enumerator<Level, Level::cpu_equal>(seen.at("level")),
                            .held = seen.at("held").boolean()});
  for (const JsonField& price : field.at("prices").items())
    out.prices.push_back({.stage = price.at("stage").text(),
                          .pass = price.at("pass").text(),
                          .deterministic = price.at("deterministic").text(),
                          .baseline = price.at("baseline").text(),
                          .deterministic_us = price.at("deterministic_us").number_or_null().value_or(0),
                          .baseline_us = price.at("baseline_us").number_or_null().value_or(0),
                          .varied = price.at("baseline_varied").boolean()});
  return out;
}

CaseResult read_case(const JsonField& field) {
  CaseResult result;
  result.id = field.at("id").text();
  result.name = field.at("name").text();
  result.params = field.at("params").text_map();
  result.status = enumerator<CaseStatus, CaseStatus::not_run>(field.at("status"));
  result.reason = field.at("reason").text_or_empty();
  result.device = field.at("device").text_or_empty();
  result.launch = field.at("launch").text_or_empty();
  for (const auto& [name, value] : field.at("geometry").members()) result.geometry[name] = value.integer();
  for (const auto& [stage, variant] : field.at("variants").members()) result.variants[stage] = read_variant(variant);
  for (const JsonField& check : field.at("checks").items()) result.checks.push_back(read_check(check));
  for (const auto& [stage, tensors] : field.at("digests").members()) result.digests[stage] = tensors.text_map();
  for (const JsonField& pass : field.at("passes").items()) result.passes.push_back(read_pass(pass));
  for (const JsonField& stage : field.at("stages").items()) result.stages.push_back(read_stage(stage));
  result.peak_memory_bytes = field.at("peak_memory_bytes").unsigned_or_null();
  result.timer_floor_us = field.at("timer_floor_us").number_or_null();
  result.wall_seconds = field.at("wall_seconds").number_or_null();
  if (field.json().contains("aa_spread")) result.aa_spread = field.at("aa_spread").number_or_null();
  result.facts = read_facts(field.at("workload_facts"));
  if (field.json().contains("determinism")) result.determinism = read_determinism(field.at("determinism"));
  return result;
}

ToolInfo read_tool(const JsonField& field) {
  ToolInfo tool;
  tool.version = field.at("version").text();
  tool.git_sha = field.at("git_sha").text_or_empty();
  tool.dirty = field.at("dirty").boolean();
  tool.build_type = field.at("build_type").text();
  tool.compiler = field.at("compiler").text();
  tool.toolkit = field.at("toolkit").text_or_empty();
  tool.flags = field.at("flags").text_or_empty();
  tool.sm_list = field.at("sm_list").texts();
  tool.contract_version = field.at("contract_version").small_integer();
  return tool;
}

DeviceInfo read_device(const JsonField& field) {
  DeviceInfo device;
  device.kind = field.at("kind").text();
  device.name = field.at("name").text();
  device.uuid = field.at("uuid").text_or_empty();
  device.pci_id = field.at("pci_id").text_or_empty();
  device.driver = field.at("driver").text_or_empty();
  device.compute_capability = field.at("compute_capability").small_integer_or_null();
  device.multiprocessors = field.at("multiprocessors").small_integer_or_null();
  device.memory_bytes = field.at("memory_bytes").unsigned_or_null();
  device.l2_bytes = field.at("l2_bytes").unsigned_or_null();
  device.sm_clock_mhz = field.at("sm_clock_mhz").number_or_null();
  device.max_sm_clock_mhz = field.at("max_sm_clock_mhz").number_or_null();
  device.memory_clock_mhz = field.at("memory_clock_mhz").number_or_null();
  device.temperature_c = field.at("temperature_c").number_or_null();
  device.throttle_reasons = field.at("throttle_reasons").texts();
  device.other_processes = field.at("other_processes").small_integer_or_null();
  return device;
}

Report read_report(const JsonField& document) {
  check_schema(document);
  Report report;
  report.tool = read_tool(document.at("tool"));
  const JsonField run = document.at("run");
  report.run = {.id = run.at("id").text(),
                .started_at = run.at("started_at").text_or_empty(),
                .finished_at = run.at("finished_at").text_or_empty(),
                .argv = run.at("argv").texts(),
                .status = run.at("status").text()};
  report.environment = document.at("environment").text_map();
  for (const JsonField& device : document.at("devices").items()) report.devices.push_back(read_device(device));
  for (const JsonField& point : document.at("roof").items())
    report.roof.push_back({.kind = point.at("kind").text(),
                           .row_bytes = point.at("row_bytes").integer(),
                           .bytes_per_second = point.at("bytes_per_second").number_or_null().value_or(0)});
  const JsonField config = document.at("effective_config");
  if (!config.is_null()) report.effective_config = config.json().dump();
  for (const JsonField& result : document.at("cases").items()) report.cases.push_back(read_case(result));
  return report;
}

}  // namespace

Report report_from_json(std::string_view text, const std::string& file) {
  const Json json = parse(text, file);
  return read_report(JsonField(json, file));
}

CaseResult case_from_json_line(std::string_view line, const std::string& file) {
  const Json json = parse(line, file);
  const JsonField document(json, file);
  check_schema(document);
  return read_case(document);
}

Report report_from_journal(std::span<const std::string> lines, const std::string& file) {
  if (lines.empty()) throw UserError(fmt::format("{} holds no results: its first line is missing", file));
  Report report = report_from_json(lines[0], file + " line 1");
  report.run.status = "interrupted";
  for (std::size_t i = 1; i < lines.size(); ++i) {
    // Bytes that are no JSON at the very end were torn by a loss of power; JSON of a wrong form is an error anywhere.
    if (i + 1 == lines.size() && !Json::accept(lines[i])) break;
    report.cases.push_back(case_from_json_line(lines[i], fmt::format("{} line {}", file, i + 1)));
  }
  return report;
}

Report load_report(const std::string& path) {
  if (path.ends_with(".journal")) return report_from_journal(recover_journal(path).lines, path);
  return report_from_json(read_file(path), path == "-" ? "stdin" : path);
}

}  // namespace sdm
