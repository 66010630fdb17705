// gen: a case's inputs, and with --outputs its results, as safetensors.
#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "cli/commands.h"
#include "io/atomic_file.h"
#include "run/capture.h"

namespace sdm {
namespace {

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw UserError(fmt::format("--out {}: the folder cannot be made ({})", folder, error.message()));
}

/// Names of all files before anything is written: two ids must not share one, and none may be there already.
std::vector<std::string> plan(const std::vector<Case>& cases, const GenOptions& options) {
  std::set<std::string> names;
  std::vector<std::string> stems;
  for (const Case& c : cases) {
    const std::string stem = (std::filesystem::path(options.out) / file_name_of(c.id)).string();
    if (!names.insert(stem).second)
      throw UserError(fmt::format("two case ids come to the file name {}; select one with --filter", stem));
    stems.push_back(stem);
    check_writable(stem + ".safetensors", options.common.force);
    if (options.outputs) check_writable(stem + ".outputs.safetensors", options.common.force);
  }
  return stems;
}

std::string written(const std::string& path) {
  return fmt::format("{}  {}\n", path, human_bytes(static_cast<double>(std::filesystem::file_size(path))));
}

}  // namespace

ExitCode generate_files(const GenOptions& options) {
  std::vector<Case> cases = select_cases(options.cases);
  const auto dense =
      std::erase_if(cases, [](const Case& c) { return !std::holds_alternative<SparseWorkload>(c.workload); });
  if (dense > 0)
    fmt::print(stderr, "sdm-bench: {} dense {} left out: only sparse inputs can be stored\n", dense,
               dense == 1 ? "case is" : "cases are");
  if (cases.empty()) return ExitCode::could_not_run;
  make_folder(options.out);
  const std::vector<std::string> stems = plan(cases, options);
  const std::string config = (std::filesystem::path(options.out) / "replay.json").string();
  check_writable(config, options.common.force);
  Parallel threads;
  std::vector<Case> replays;
  std::string text;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const std::string inputs = stems[i] + ".safetensors", outputs = stems[i] + ".outputs.safetensors";
    write_inputs(cases[i], inputs, threads, options.common.force);
    text += written(inputs);
    if (options.outputs) {
      write_outputs(cases[i], outputs, threads, options.common.force);
      text += written(outputs);
    }
    replays.push_back(replay_of(cases[i], inputs));
  }
  write_file(config, effective_config_json(replays) + "\n", options.common.force);
  emit(options.common, text + written(config));
  return ExitCode::ok;
}

}  // namespace sdm
