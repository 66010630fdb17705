#pragma once
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/parallel.h"

namespace sdm {

/// One stored tensor against one variant.
struct ConformRow {
  std::string case_name, stage, variant, tensor;
  enum class Verdict : std::uint8_t { equal, differs, refused } verdict = Verdict::equal;
  std::string detail;  ///< the first difference, or why the variant refused
};

/// Runs every stage that `file` stores on the replay and, where `gpu` is given, on every exact variant, and compares
/// bits (spec 2.7). A stored dense case is held to bounds instead, and on every variant (spec 4). Throws UserError for
/// a file that is no stored case or is damaged.
std::vector<ConformRow> conform_file(const std::string& file, Backend* gpu, Parallel& threads);

/// The *.safetensors files of a folder, or the file itself; ascending. Throws UserError where there is none.
std::vector<std::string> conform_files(const std::string& path);

}  // namespace sdm
