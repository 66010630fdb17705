#pragma once
#include <memory>
#include <regex>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "cli/exit_code.h"
#include "cli/options.h"
#include "config/config.h"
#include "config/expand.h"
#include "io/journal.h"
#include "report/result.h"

namespace sdm {

/// Throws UserError for flags of `run` of which one would silently do nothing beside the other.
void check_flags(const RunOptions& options);
ExitCode run_cases(const RunOptions& options, const std::vector<std::string>& argv);
/// run --ab: two forms of the cases, sampled in turn, and their comparison.
ExitCode run_ab(const RunOptions& options, const std::vector<std::string>& argv);
ExitCode conform(const ConformOptions& options);
ExitCode check_configs(const CheckOptions& options);
ExitCode list_things(const ListOptions& options);
ExitCode report_result(const ReportOptions& options);
ExitCode compare_results(const CompareOptions& options);
ExitCode generate_files(const GenOptions& options);
ExitCode show_environment(const EnvOptions& options);
ExitCode measure_roofs(const RoofOptions& options);
ExitCode sweep_numerics(const NumericsOptions& options);

/// Thrown where a GPU was asked for by name and none can be used: exit code 77.
struct NoGpu : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct DeviceChoice {
  std::string name;  ///< cpu, or cuda:N: names the same device to a child process
  DeviceInfo info;
  int gpu = -1;  ///< its number; -1: the host
};

/// The device that open_device would open, without opening it. Throws as open_device does.
DeviceChoice choose_device(const std::string& name);

/// auto | cpu | cuda | cuda:N | GPU-uuid. Throws UserError for another word, NoGpu where the GPU is not there.
std::unique_ptr<Backend> open_device(const std::string& name, bool force_portable);

/// Variant names by stage, for config checking.
VariantCatalogue variant_catalogue();

/// What a report says of tool, machine, device and command before the first case ran; its status is "running".
Report start_report(const std::vector<std::string>& argv, const DeviceInfo& device, const std::vector<Case>& cases);

/// The roofs that the row sizes of the timed cases are held against; none on the host.
std::vector<RoofPoint> roofs_for(Backend& backend, const std::vector<Case>& cases);

/// A regular expression over case ids that the user gave with `flag`. Throws UserError.
std::regex id_pattern(std::string_view flag, const std::string& text);

/// Expands, filters and orders the cases of the options. Throws UserError, also where no case is left.
std::vector<Case> select_cases(const CaseOptions& options);

/// The format of a comparison: the one asked for, else by the file's ending, else a table.
std::string comparison_format(const CommonOptions& options);

/// What --dry-run says: the cases' ids, one a line.
std::string ids_of(const std::vector<Case>& cases);

/// Writes the document of a run. Where that fails, what ran is not lost: the UserError says where it is.
void write_result(const RunOptions& options, const Report& report, const std::string& document, const Journal& journal);

/// Writes a document to a file (atomically) or to stdout. Throws UserError where not all of it could be written.
void emit(const CommonOptions& options, const std::string& text);

}  // namespace sdm
