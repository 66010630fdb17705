#include <fmt/format.h>
#include <unistd.h>

#include <set>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "check/planted_fault.h"
#include "cli/commands.h"
#include "io/atomic_file.h"
#include "io/journal.h"
#include "report/json.h"
#include "report/progress.h"
#include "report/render.h"
#include "report/terminal.h"
#include "run/ab.h"
#include "run/case_runner.h"
#include "run/fresh_process.h"
#include "run/tool_info.h"

namespace sdm {
namespace {

/// The format asked for, else by the file's ending, else a table on stdout and JSON in a file.
std::string document_format(const CommonOptions& o) {
  if (!o.format.empty()) return std::string(report_format(o.format).name);
  if (o.output == "-") return "table";
  for (const auto& [ending, format] : {std::pair{".csv", "csv"},
                                       {".md", "md"},
                                       {".jsonl", "jsonl"},
                                       {".xml", "junit"},
                                       {".txt", "table"},
                                       {".html", "html"}})
    if (o.output.ends_with(ending)) return format;
  return "json";
}

}  // namespace

Report start_report(const std::vector<std::string>& argv, const Backend& backend, const std::vector<Case>& cases) {
  Report report;
  report.tool = tool_info();
  report.run.started_at = timestamp_now();
  report.run.id = fmt::format("{}-{}", report.run.started_at, getpid());
  report.run.argv = argv;
  report.run.status = "running";
  report.environment = environment_facts();
  report.devices = {backend.info()};
  report.effective_config = effective_config_json(cases);
  return report;
}

namespace {

/// "tile=64,warps=4,depth=8". Throws UserError.
Geometry parse_geometry(const std::string& text) {
  Geometry geometry;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string item = text.substr(begin, end - begin);
    const std::size_t equals = item.find('=');
    const std::string name = item.substr(0, equals),
                      digits = equals == std::string::npos ? "" : item.substr(equals + 1);
    int* const value = name == "tile"    ? &geometry.tile
                       : name == "warps" ? &geometry.warps
                       : name == "depth" ? &geometry.depth
                                         : nullptr;
    const bool is_number =
        !digits.empty() && digits.size() < 7 && digits.find_first_not_of("0123456789") == std::string::npos;
    if (!value || !is_number)
      throw UserError(
          fmt::format("--geometry has '{}'; legal are tile=N, warps=N and depth=N, N below a million", item));
    *value = std::stoi(digits);
    begin = end + 1;
  }
  return geometry;
}

/// Every sparse case's command to run it again alone.
std::string rerun_command(const RunOptions& options, const std::string& id) {
  std::string command = "sdm-bench run";
  for (const std::string& config : options.cases.configs) command += " " + config;
  for (const std::string& set : options.cases.set) command += fmt::format(" --set '{}'", set);
  if (options.cases.seed) command += fmt::format(" --seed {}", *options.cases.seed);
  std::string pattern;
  for (const char c : id)
    pattern += std::string(std::string_view(".^$|()[]{}*+?\\").find(c) != std::string_view::npos ? "\\" : "") + c;
  return fmt::format("{} --filter '^{}$'", command, pattern);
}

ExitCode exit_code_of(const Report& report) {
  bool failed = false, could_not = false;
  for (const CaseResult& c : report.cases) {
    failed |= c.status == CaseStatus::failed;
    could_not |= c.status != CaseStatus::failed && c.status != CaseStatus::ok;
  }
  if (interrupted()) return static_cast<ExitCode>(128 + interrupted());
  if (failed) return ExitCode::check_failed;
  return could_not ? ExitCode::could_not_run : ExitCode::ok;
}

CaseResult not_run(const Case& c, std::string reason) {
  CaseResult result;
  result.id = c.id, result.name = c.name, result.params = c.params;
  result.reason = std::move(reason);
  return result;
}

/// Two interleaved runs of the very same case: their difference is noise.
void calibrate(const Case& c, const CaseEnvironment& environment, CaseResult& result) {
  const AbEnvironment ab{environment.backend, environment.threads, environment.quick,
                         [&](std::string_view what) { environment.phase(fmt::format("calibrate: {}", what)); },
                         environment.stop};
  const auto [a, b] = run_interleaved(c, c, ab);
  if (a.status == CaseStatus::ok && b.status == CaseStatus::ok) result.aa_spread = relative_spread(a, b);
}

/// Runs the cases in order into `report`; what remains after an interrupt or a lost context is not_run.
bool run_all(const RunOptions& options, const std::vector<Case>& cases, const CaseEnvironment& environment,
             Progress& progress, Journal& journal, Report& report) {
  std::string lost;
  for (const Case& c : cases) {
    CaseResult result;
    progress.start_case(c.id);
    if (!lost.empty() || interrupted()) {
      result = not_run(c, lost.empty() ? "interrupted" : lost);
    } else {
      try {
        result = run_case(c, environment);
        if (options.calibrate && result.status == CaseStatus::ok && environment.timing)
          calibrate(c, environment, result);
      } catch (const CudaError& error) {
        result = not_run(c, error.what());
        result.status = CaseStatus::error;
        lost = fmt::format("the CUDA context was lost in case {}", c.id);
      }
    }
    for (CheckResult& check : result.checks)
      if (check.status == CheckResult::Status::failed) check.rerun = rerun_command(options, c.id);
    progress.finish_case(result.status, result.reason);
    if (result.status != CaseStatus::not_run) journal.append(case_to_json_line(result, report.run.id));
    report.cases.push_back(std::move(result));
  }
  return lost.empty();
}

/// --plant. Throws UserError for a name that is none.
std::unique_ptr<PlantedFault> planted_fault(const std::string& name) {
  if (name.empty()) return nullptr;
  if (const PlantedFault::Kind* kind = PlantedFault::find(name)) return std::make_unique<PlantedFault>(*kind);
  std::vector<std::string> names;
  for (const PlantedFault::Kind& kind : PlantedFault::all()) names.emplace_back(kind.name);
  throw UserError(
      fmt::format("--plant is '{}'; planted faults are {}{}", name, join(names), did_you_mean(name, names)));
}

/// What a fresh process must be told to run cases as this one does.
std::vector<std::string> fresh_arguments(const RunOptions& options, const Backend& backend) {
  std::vector<std::string> arguments = {"--device", backend.device() ? backend.info().uuid : "cpu"};
  if (options.threads > 0) arguments.insert(arguments.end(), {"--threads", fmt::format("{}", options.threads)});
  if (options.portable) arguments.emplace_back("--portable");
  if (!options.geometry.empty()) arguments.insert(arguments.end(), {"--geometry", options.geometry});
  if (!options.plant.empty()) arguments.insert(arguments.end(), {"--plant", options.plant});
  return arguments;
}

void say_what_would_run(const std::vector<Case>& cases) {
  for (const Case& c : cases) fmt::print("{}\n", c.id);
}

}  // namespace

std::vector<RoofPoint> roofs_for(Backend& backend, const std::vector<Case>& cases);

ExitCode run_cases(const RunOptions& options, const std::vector<std::string>& argv) {
  if (!options.ab.empty()) return run_ab(options, argv);
  const std::vector<Case> cases = select_cases(options.cases);
  if (options.dry_run) return say_what_would_run(cases), ExitCode::ok;
  const std::string format = document_format(options.common);
  const ColorMode color = color_mode(options.common.color);
  check_writable(options.common.output, options.common.force);
  const std::unique_ptr<Backend> backend = open_device(options.device, options.portable), host = make_host_backend();
  Parallel threads(options.threads);
  Report report = start_report(argv, *backend, cases);
  Journal journal(options.common.output, options.common.force);
  journal.append(journal_header(report));
  Progress progress(static_cast<int>(cases.size()), progress_style(options.common.quiet, color));
  CaseEnvironment environment{*backend,
                              *host,
                              threads,
                              {},
                              parse_geometry(options.geometry),
                              !options.no_checks && !options.profile,
                              !options.no_timing && !options.profile,
                              options.quick,
                              options.profile,
                              [&](std::string_view what) { progress.phase(what); },
                              [] { return interrupted() != 0; }};
  const std::unique_ptr<PlantedFault> fault = planted_fault(options.plant);
  environment.fault = fault.get();
  environment.most_determinism_cost = options.max_determinism_cost;
  FreshProcess fresh(cases_with_process(cases), fresh_arguments(options, *backend), environment.stop);
  environment.fresh_process = [&](const std::string& id) { return fresh.digests(id); };
  if (environment.timing) environment.roof = report.roof = roofs_for(*backend, cases);
  const bool context_alive = run_all(options, cases, environment, progress, journal, report);
  progress.finish();
  report.run.finished_at = timestamp_now();
  report.run.status = interrupted() ? "interrupted" : "finished";
  emit(options.common, render(report, format, {color_wanted(color, STDOUT_FILENO)}));
  if (options.common.output != "-" && !options.common.quiet)
    fmt::print(stderr, "{}", render(report, "table", {color_wanted(color, STDERR_FILENO)}));
  journal.remove();
  return context_alive ? exit_code_of(report) : ExitCode::context_lost;
}

ExitCode report_result(const ReportOptions& options) {
  const Report report = load_report(options.file);
  CommonOptions common = options.common;
  const ColorMode color = color_mode(common.color);
  emit(common, render(report, document_format(common), {color_wanted(color, STDOUT_FILENO)}));
  return ExitCode::ok;
}

}  // namespace sdm
