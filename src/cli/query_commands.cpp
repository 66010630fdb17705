// Verbs that measure nothing: check, list, env, conform.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "cli/commands.h"
#include "kernels/registry.h"
#include "report/terminal.h"
#include "run/conform.h"
#include "run/dense_session.h"
#include "run/sparse_session.h"
#include "run/tool_info.h"

namespace sdm {
namespace {

using Json = nlohmann::ordered_json;

std::uint64_t memory_of(const Case& c) {
  if (const auto* dense = std::get_if<DenseWorkload>(&c.workload)) return DenseSession::bytes_for(*dense);
  return SparseSession::bytes_for(std::get<SparseWorkload>(c.workload));
}

Json stages_json() {
  Json stages = Json::array();
  registry().each([&](const auto& stage) {
    Json variants = Json::array();
    variants.push_back({{"name", "replay"},
                        {"guarantee", "exact"},
                        {"device", "cpu"},
                        {"automatic", true},
                        {"why", "the host reference; runs where there is no GPU"}});
    for (const auto* variant : stage.variants)
      variants.push_back({{"name", variant->name},
                          {"guarantee", name_of(variant->guarantee)},
                          {"device", "cuda"},
                          {"automatic", variant->automatic},
                          {"why", variant->why}});
    stages.push_back({{"name", stage.name}, {"known_as", stage.known_as}, {"variants", variants}});
  });
  return stages;
}

Json devices_json() {
  Json devices = Json::array();
  devices.push_back({{"id", "cpu"}, {"name", make_host_backend()->info().name}});
  const GpuList gpus = list_gpus();
  for (std::size_t i = 0; i < gpus.devices.size(); ++i)
    devices.push_back(
        {{"id", fmt::format("cuda:{}", i)}, {"name", gpus.devices[i].name}, {"uuid", gpus.devices[i].uuid}});
  return devices;
}

struct LaunchHelp {
  std::string_view name, what;
};
constexpr LaunchHelp kLaunchModes[] = {
    {"auto",
     "fused where that pays, else a graph with branches of streams, of dependent launches where the GPU has them"},
    {"eager", "one launch after the other from the host"},
    {"plan", "checked, bound and recorded once: the host launches a small graph a step"},
    {"pdl", "a kernel's prologue overlaps the end of the kernel before it (compute capability 9.0)"},
    {"graph", "a pass is recorded once and replayed"},
    {"fused", "the steps of a pass are one persistent kernel; teams of CTAs own the streams"},
};

Json launch_modes_json() {
  Json modes = Json::array();
  for (const LaunchHelp& mode : kLaunchModes) modes.push_back({{"name", mode.name}, {"what", mode.what}});
  return modes;
}

std::string stages_text() {
  std::string text = "stages and variants (auto takes the first that accepts a case)\n";
  for (const Json& stage : stages_json()) {
    const auto known = stage["known_as"].get<std::string>();
    text += fmt::format("\n{}{}\n", stage["name"].get<std::string>(), known.empty() ? "" : "  (" + known + ")");
    for (const Json& v : stage["variants"])
      text += fmt::format("  {:<14} {:<12} {:<5} {}{}\n", v["name"].get<std::string>(),
                          v["guarantee"].get<std::string>(), v["device"].get<std::string>(),
                          v["automatic"].get<bool>() ? "" : "[by name only] ", v["why"].get<std::string>());
  }
  text += "\nlaunch modes (bits never change)\n";
  for (const LaunchHelp& mode : kLaunchModes) text += fmt::format("  {:<8} {}\n", mode.name, mode.what);
  text += "\ndevices\n";
  for (const Json& device : devices_json())
    text += fmt::format("  {:<8} {}\n", device["id"].get<std::string>(), device["name"].get<std::string>());
  if (const GpuList gpus = list_gpus(); gpus.devices.empty()) text += fmt::format("  no GPU: {}\n", gpus.why_none);
  return text;
}

}  // namespace

ExitCode list_things(const ListOptions& options) {
  if (options.cases.configs.empty()) {
    emit(options.common,
         options.json
             ? Json{{"stages", stages_json()}, {"launch_modes", launch_modes_json()}, {"devices", devices_json()}}.dump(
                   2) +
                   "\n"
             : stages_text());
    return ExitCode::ok;
  }
  Json cases = Json::array();
  std::string text;
  for (const Case& c : select_cases(options.cases)) {
    cases.push_back({{"id", c.id}, {"params", c.params}, {"memory_bytes", std::to_string(memory_of(c))}});
    text += c.id + "\n";
  }
  emit(options.common, options.json ? cases.dump(2) + "\n" : text);
  return ExitCode::ok;
}

ExitCode check_configs(const CheckOptions& options) {
  const std::vector<Case> cases = select_cases(options.cases);
  std::uint64_t largest = 0;
  double seconds = 0;
  for (const Case& c : cases) {
    largest = std::max(largest, memory_of(c));
    if (c.timed) seconds += c.timing.max_seconds * 2 * (c.timing.l2 == TimingSpec::L2::both ? 2 : 1);
  }
  emit(options.common,
       fmt::format("{} cases, all valid; the largest needs {}; timing takes at most about {} (checks apart)\n",
                   cases.size(), human_bytes(static_cast<double>(largest)), human_seconds(seconds)));
  return ExitCode::ok;
}

ExitCode show_environment(const EnvOptions& options) {
  const ToolInfo tool = tool_info();
  Json json{{"version", tool.version},
            {"git_sha", tool.git_sha},
            {"dirty", tool.dirty},
            {"build_type", tool.build_type},
            {"compiler", tool.compiler},
            {"flags", tool.flags},
            {"cuda_toolkit", tool.toolkit},
            {"sm_list", tool.sm_list},
            {"contract_version", tool.contract_version},
            {"environment", environment_facts()},
            {"devices", devices_json()}};
  const GpuList gpus = list_gpus();
  json["gpu"] = gpus.devices.empty() ? "none: " + gpus.why_none : fmt::format("{} usable", gpus.devices.size());
  if (options.json) return emit(options.common, json.dump(2) + "\n"), ExitCode::ok;
  std::string text;
  for (const auto& [key, value] : json.items())
    text += fmt::format("{:<18} {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
  emit(options.common, text);
  return ExitCode::ok;
}

ExitCode conform(const ConformOptions& options) {
  const std::unique_ptr<Backend> backend = open_device(options.device, options.portable);
  Parallel threads;
  int equal = 0, refused = 0;
  std::string text, failures;
  for (const std::string& path : options.paths)
    for (const std::string& file : conform_files(path)) {
      std::map<std::string, int> wrong;
      int rows = 0;
      for (const ConformRow& row : conform_file(file, backend->device() ? backend.get() : nullptr, threads)) {
        ++rows;
        if (row.verdict == ConformRow::Verdict::equal) ++equal;
        if (row.verdict == ConformRow::Verdict::refused) ++refused;
        if (options.common.verbose)
          text += fmt::format("{:<16} {:<14} {:<12} {:<24} {}\n", row.case_name, row.stage, row.variant, row.tensor,
                              row.verdict == ConformRow::Verdict::equal && row.detail.empty() ? "equal" : row.detail);
        if (row.verdict != ConformRow::Verdict::differs) continue;
        ++wrong[row.stage + "/" + row.variant];
        failures += fmt::format("{}: {}/{}: {}: {}\n", file, row.stage, row.variant, row.tensor, row.detail);
      }
      std::string stages;
      for (const auto& [stage, count] : wrong) stages += fmt::format(" {} ({} tensors)", stage, count);
      text +=
          fmt::format("{:<48} {:>4} comparisons  {}\n", file, rows, wrong.empty() ? "equal" : "DIFFERS in" + stages);
    }
  text += failures;
  text += fmt::format("{} equal, {} differ, {} refused\n", equal, std::count(failures.begin(), failures.end(), '\n'),
                      refused);
  emit(options.common, text);
  return failures.empty() ? ExitCode::ok : ExitCode::check_failed;
}

}  // namespace sdm
