#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "cli/commands.h"
#include "io/atomic_file.h"
#include "report/json.h"

namespace sdm {
namespace {

/// A place for results that cannot be written where they were asked for: its path, empty where that fails as well.
std::string rescue(const Report& report) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::temp_directory_path(error);
  if (error) return "";
  std::string path = (folder / fmt::format("sdm-bench-{}.json", report.run.id)).string();
  try {
    write_file(path, to_json(report), false);
  } catch (const UserError&) {
    return "";
  }
  return path;
}

}  // namespace

void write_result(const RunOptions& options, const Report& report, const std::string& document,
                  const Journal& journal) {
  try {
    emit(options.common, document);
  } catch (const UserError& error) {
    const std::string kept = journal.kept() ? Journal::path_for(options.common.output) : "";
    if (!kept.empty() && journal.complete())
      throw UserError(fmt::format("{}; the results are in {}, for sdm-bench report", error.what(), kept));
    if (const std::string path = rescue(report); !path.empty())
      throw UserError(fmt::format("{}; the results are in {}", error.what(), path));
    if (kept.empty()) throw;
    throw UserError(fmt::format("{}; those results that found room are in {}", error.what(), kept));
  }
}

}  // namespace sdm
