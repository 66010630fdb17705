#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <regex>

#include "base/error.h"
#include "base/interrupt.h"
#include "base/text.h"
#include "check/planted_fault.h"
#include "cli/commands.h"
#include "cli/run_again.h"
#include "io/atomic_file.h"
#include "io/journal.h"
#include "report/json.h"
#include "report/progress.h"
#include "report/render.h"
#include "report/terminal.h"
#include "run/ab.h"
#include "run/case_runner.h"
#include "run/fresh_process.h"
#include "run/isolate.h"
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

Report start_report(const std::vector<std::string>& argv, const DeviceInfo& device, const std::vector<Case>& cases) {
  Report report;
  report.tool = tool_info();
  report.run.started_at = timestamp_now();
  report.run.id = fmt::format("{}-{}", report.run.started_at, getpid());
  report.run.argv = argv;
  report.run.status = "running";
  report.environment = environment_facts();
  report.devices = {device};
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

ExitCode exit_code_of(const Report& report, int interrupt) {
  bool failed = false, could_not = false;
  for (const CaseResult& c : report.cases) {
    failed |= c.status == CaseStatus::failed;
    could_not |= c.status != CaseStatus::failed && c.status != CaseStatus::ok;
  }
  if (interrupt != 0) return static_cast<ExitCode>(128 + interrupt);
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

/// Runs one case; throws CudaError where the context is lost.
using RunOne = std::function<CaseResult(const Case&)>;

/// Every result goes to the journal first: what the progress calls finished is safe. A journal that cannot be written
/// any more (a full disk) is no reason to stop: the results are in memory, and the final file may yet find room.
void keep(const CaseResult& result, const Report& report, Journal& journal, Progress& progress) {
  if (result.status == CaseStatus::not_run) return;
  const bool was_complete = journal.complete();
  journal.append(case_to_json_line(result, report.run.id));
  if (was_complete && !journal.complete()) progress.warn(journal.why_incomplete());
}

/// Runs the cases in order into `report`; what remains after an interrupt or a lost context is not_run.
bool run_all(const RunOptions& options, const std::vector<Case>& cases, const RunOne& run_one, Progress& progress,
             Journal& journal, Report& report) {
  std::string lost;
  for (const Case& c : cases) {
    CaseResult result;
    progress.start_case(c.id);
    if (!lost.empty() || interrupted()) {
      result = not_run(c, lost.empty() ? "interrupted" : lost);
    } else {
      try {
        result = run_one(c);
      } catch (const CudaError& error) {
        result = not_run(c, error.what());
        result.status = CaseStatus::error;
        lost = fmt::format("the CUDA context was lost in case {}", c.id);
      }
    }
    for (CheckResult& check : result.checks)
      if (check.status == CheckResult::Status::failed) check.rerun = rerun_command(options, c.id);
    keep(result, report, journal, progress);
    progress.finish_case(result.status, result.reason);
    report.cases.push_back(std::move(result));
  }
  return lost.empty();
}

/// --plant and --plant-in.
class Planting {
 public:
  /// Throws UserError for a name or a pattern that is none.
  explicit Planting(const RunOptions& options) : where_(id_pattern("--plant-in", options.plant_in)) {
    if (options.plant.empty()) return;
    const PlantedFault::Kind* const kind = PlantedFault::find(options.plant);
    if (!kind) refuse(options.plant);
    fault_.emplace(*kind);
  }
  /// What spoils this case; null: it is honest.
  PlantedFault* in(const Case& c) { return fault_ && std::regex_search(c.id, where_) ? &*fault_ : nullptr; }

 private:
  [[noreturn]] static void refuse(const std::string& name) {
    std::vector<std::string> names;
    for (const PlantedFault::Kind& kind : PlantedFault::all()) names.emplace_back(kind.name);
    throw UserError(
        fmt::format("--plant is '{}'; planted faults are {}{}", name, join(names), did_you_mean(name, names)));
  }

  std::regex where_;
  std::optional<PlantedFault> fault_;
};

/// All cases in this process.
bool run_together(const RunOptions& options, const std::vector<Case>& cases, Backend& backend, Progress& progress,
                  Journal& journal, Report& report) {
  const std::unique_ptr<Backend> host = make_host_backend();
  Parallel threads(options.threads);
  CaseEnvironment environment{backend,
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
  Planting planting(options);
  environment.most_determinism_cost = options.max_determinism_cost;
  FreshProcess fresh(cases_with_process(cases), process_flags(options, backend.device() ? backend.info().uuid : "cpu"),
                     environment.stop);
  environment.fresh_process = [&](const std::string& id) { return fresh.digests(id); };
  if (environment.timing) environment.roof = report.roof = roofs_for(backend, cases);
  const RunOne run_one = [&](const Case& c) {
    environment.fault = planting.in(c);
    CaseResult result = run_case(c, environment);
    if (options.calibrate && result.status == CaseStatus::ok && environment.timing) calibrate(c, environment, result);
    return result;
  };
  return run_all(options, cases, run_one, progress, journal, report);
}

/// A roof that several children measured is kept as it was measured last, beside the case that it was measured for.
void merge_roof(std::vector<RoofPoint>& all, const std::vector<RoofPoint>& more) {
  for (const RoofPoint& point : more) {
    std::erase_if(all, [&](const RoofPoint& p) { return p.kind == point.kind && p.row_bytes == point.row_bytes; });
    all.push_back(point);
  }
}

/// Every case in a process of its own; this one opens no device.
bool run_isolated(const RunOptions& options, const std::vector<Case>& cases, const std::string& device,
                  Progress& progress, Journal& journal, Report& report) {
  parse_geometry(options.geometry), Planting(options);  // a mistake is told once, not case by case
  const IsolateOptions isolate{child_flags(options, device), interrupted};
  const RunOne run_one = [&](const Case& c) {
    IsolatedCase isolated = run_case_isolated(c, isolate);
    merge_roof(report.roof, isolated.roof);
    return std::move(isolated.result);
  };
  return run_all(options, cases, run_one, progress, journal, report);
}

}  // namespace

ExitCode run_cases(const RunOptions& options, const std::vector<std::string>& argv) {
  check_flags(options);
  if (!options.ab.empty()) return run_ab(options, argv);
  const std::vector<Case> cases = select_cases(options.cases);
  if (options.dry_run) return emit({}, ids_of(cases)), ExitCode::ok;
  const std::string format = document_format(options.common);
  const ColorMode color = color_mode(options.common.color);
  check_writable(options.common.output, options.common.force);
  const std::unique_ptr<Backend> backend = options.isolate ? nullptr : open_device(options.device, options.portable);
  const DeviceChoice device = backend ? DeviceChoice{"", backend->info()} : choose_device(options.device);
  Report report = start_report(argv, device.info, cases);
  Journal journal(options.common.output, options.common.force);
  journal.append(journal_header(report));
  if (!journal.complete()) throw UserError(journal.why_incomplete());
  Progress progress(static_cast<int>(cases.size()), progress_style(options.common.quiet, color));
  const bool context_alive = backend ? run_together(options, cases, *backend, progress, journal, report)
                                     : run_isolated(options, cases, device.name, progress, journal, report);
  progress.finish();
  report.run.finished_at = timestamp_now();
  const int interrupt = interrupted();  // once: file and exit code tell the same, whatever comes while it is written
  report.run.status = interrupt != 0 ? "interrupted" : "finished";
  write_result(options, report, render(report, format, {color_wanted(color, STDOUT_FILENO)}), journal);
  if (options.common.output != "-" && !options.common.quiet)
    fmt::print(stderr, "{}", render(report, "table", {color_wanted(color, STDERR_FILENO)}));
  journal.remove();
  return context_alive ? exit_code_of(report, interrupt) : ExitCode::context_lost;
}

ExitCode report_result(const ReportOptions& options) {
  const Report report = load_report(options.file);
  CommonOptions common = options.common;
  const ColorMode color = color_mode(common.color);
  emit(common, render(report, document_format(common), {color_wanted(color, STDOUT_FILENO)}));
  return ExitCode::ok;
}

}  // namespace sdm
