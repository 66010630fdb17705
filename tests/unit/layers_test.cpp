// Which folder may include which: the arrows of the design, so that they cannot rot. A file is judged by the rule of
// the longest path prefix.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;

struct Include {
  std::string file;    ///< from the repository's root
  std::string target;  ///< as written between the quotes or brackets
  bool quoted;
};

std::vector<Include> read_includes() {
  const std::regex pattern(R"re(^\s*#\s*include\s*(["<])([^">]+)[">])re");
  const fs::path root = SDM_SOURCE_DIR;
  std::vector<Include> includes;
  for (const char* folder : {"src", "kernels"})
    for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
      const std::string ending = entry.path().extension();
      if (ending != ".h" && ending != ".cpp" && ending != ".cu" && ending != ".cuh") continue;
      std::ifstream file(entry.path());
      std::smatch match;
      for (std::string line; std::getline(file, line);)
        if (std::regex_search(line, match, pattern))
          includes.push_back({fs::relative(entry.path(), root).generic_string(), match[2], match[1] == "\""});
    }
  return includes;
}

const std::vector<Include>& all_includes() {
  static const std::vector<Include> includes = read_includes();
  return includes;
}

bool starts_with_any(const std::string& text, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&](const std::string& p) { return text.rfind(p, 0) == 0; });
}

// What each part may include of our own. A part may always include itself.
const std::map<std::string, std::vector<std::string>>& arrows() {
  static const std::map<std::string, std::vector<std::string>> rules = {
      {"src/base/", {"numerics/"}},
      {"src/numerics/", {"base/dispatch.h", "base/dtype.h"}},
      {"src/workload/", {"base/", "io/", "numerics/"}},
      {"src/io/", {"base/", "kernels/data.h", "workload/"}},
      {"src/config/", {"base/", "io/", "workload/"}},
      {"src/report/", {"base/", "config/", "io/", "workload/"}},
      {"src/oracle/", {"base/", "workload/"}},
      {"kernels/", {"base/", "numerics/", "workload/"}},
      {"src/backend/",
       {"base/", "kernels/bank_fill/", "kernels/load/", "kernels/numeric_sweep/", "kernels/roof/", "kernels/stage.h",
        "numerics/", "pipeline/tensor.h", "report/result.h"}},
      {"src/pipeline/", {"base/", "backend/", "kernels/", "numerics/", "report/result.h", "workload/"}},
      {"src/check/",
       {"base/", "backend/", "config/config.h", "kernels/", "numerics/", "oracle/", "pipeline/", "report/result.h",
        "run/", "workload/"}},
      {"src/measure/",
       {"base/", "backend/", "config/config.h", "kernels/", "pipeline/", "report/", "run/", "workload/"}},
      {"src/run/",
       {"base/", "backend/", "check/", "config/", "io/", "kernels/", "measure/", "numerics/", "oracle/", "pipeline/",
        "report/", "workload/"}},
      {"src/cli/",
       {"base/", "backend/", "check/numerics.h", "check/planted_fault.h", "config/", "io/", "kernels/registry.h",
        "measure/", "numerics/sweep.h", "report/", "run/", "workload/"}},
      {"src/main.cpp", {"base/", "cli/"}},
  };
  return rules;
}

std::string part_of(const std::string& file) {
  for (const auto& [part, allowed] : arrows())
    if (file.rfind(part, 0) == 0) return part;
  return {};
}

TEST(Layers, EveryFileBelongsToAPart) {
  ASSERT_GT(all_includes().size(), 300u) << "the sources were not found";
  for (const Include& include : all_includes()) EXPECT_NE(part_of(include.file), "") << include.file;
}

TEST(Layers, ArrowsHold) {
  for (const Include& include : all_includes()) {
    if (!include.quoted || include.target == "git_info.h") continue;
    const std::string part = part_of(include.file);
    if (part.empty()) continue;
    const std::string own = part.rfind("src/", 0) == 0 ? part.substr(4) : part;
    EXPECT_TRUE(include.target.rfind(own, 0) == 0 || starts_with_any(include.target, arrows().at(part)))
        << include.file << " must not include " << include.target;
  }
}

/// `library` may be seen by files that start with one of `allowed` only.
void expect_only_in(const std::string& library, const std::vector<std::string>& allowed) {
  int seen = 0;
  for (const Include& include : all_includes()) {
    if (include.target.rfind(library, 0) != 0) continue;
    ++seen;
    EXPECT_TRUE(starts_with_any(include.file, allowed)) << include.file << " must not include " << include.target;
  }
  EXPECT_GT(seen, 0) << library << " is no longer used: drop its rule";
}

TEST(Layers, LibrariesStayWhereTheyBelong) {
  expect_only_in("nlohmann/", {"src/config/", "src/report/", "src/io/", "src/cli/"});
  expect_only_in("CLI/", {"src/cli/"});
  expect_only_in("Random123/", {"src/base/rng.h"});
  expect_only_in("xxhash", {"src/base/digest"});
}

TEST(Layers, CudaIsSeenByDeviceCodeOnly) {
  for (const Include& include : all_includes()) {
    if (!starts_with_any(include.target, {"cuda", "cub/", "nvtx3/", "mma"})) continue;
    const bool device_code = include.file.ends_with(".cu") || include.file.ends_with(".cuh");
    EXPECT_TRUE(device_code || include.file == "kernels/common/launch.h" ||
                include.file == "kernels/dense_rescan/tensor_maps.h" ||
                starts_with_any(include.file, {"src/backend/cuda_"}))
        << include.file << " must not include " << include.target;
  }
}

/// The functions of a file's anonymous namespaces, told by how they are laid out: from the first column.
std::vector<std::string> hidden_functions(const fs::path& path) {
  const std::regex pattern(R"(^[\w\[<][\w:<>,&*\s\[\]]*?[\s&*](\w+)\()");
  std::ifstream file(path);
  std::vector<std::string> names;
  bool hidden = false;
  std::smatch match;
  for (std::string line; std::getline(file, line);) {
    if (line == "namespace {") hidden = true;
    if (line == "}  // namespace") hidden = false;
    if (hidden && std::regex_search(line, match, pattern)) names.push_back(match[1]);
  }
  return names;
}

// SDM_UNITY compiles the sources of a folder together. A name that stands twice is then an error at best; at worst one
// file's overload suits another file's call better.
TEST(Layers, HiddenFunctionsOfAFolderHaveNamesOfTheirOwn) {
  std::map<std::string, fs::path> home;  // folder/function -> its file
  for (const auto& folder : fs::directory_iterator(fs::path(SDM_SOURCE_DIR) / "src")) {
    if (!folder.is_directory()) continue;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().extension() != ".cpp") continue;
      for (const std::string& name : hidden_functions(entry.path())) {
        const auto [known, fresh] = home.emplace(folder.path().filename() / name, entry.path());
        EXPECT_TRUE(fresh || known->second == entry.path())
            << name << " is in " << known->second << " and " << entry.path();
      }
    }
  }
  EXPECT_GT(home.size(), 300u) << "the functions were not found";
}

}  // namespace
