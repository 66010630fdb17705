// kernels/README.md lists the stages in order, each with the variants that its folder defines.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "kernels/registry.h"

namespace sdm {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::vector<std::string> matches(const std::string& text, const std::regex& pattern) {
  std::vector<std::string> found;
  for (std::sregex_iterator i(text.begin(), text.end(), pattern), end; i != end; ++i) found.push_back((*i)[1]);
  return found;
}

struct Row {
  std::string stage;
  std::vector<std::string> variants;
};

std::vector<Row> rows() {
  std::vector<Row> rows;
  std::ifstream file(SDM_SOURCE_DIR "/kernels/README.md");
  const std::regex row(R"(^\| (\w+) \| [^|]*, (?:forward|backward) \|.*\|([^|]*)\|$)");
  std::smatch match;
  for (std::string line; std::getline(file, line);)
    if (std::regex_match(line, match, row)) rows.push_back({match[1], matches(match[2], std::regex(R"((\w+))"))});
  return rows;
}

TEST(KernelsReadme, ListsEveryStageInOrder) {
  std::vector<std::string> listed, built;
  for (const Row& row : rows()) listed.push_back(row.stage);
  registry().each([&](const auto& stage) { built.emplace_back(stage.name); });
  EXPECT_EQ(listed, built);
}

TEST(KernelsReadme, ListsEveryVariantOfAFolder) {
  for (const Row& row : rows()) {
    std::set<std::string> defined;
    for (const auto& entry : fs::directory_iterator(fs::path(SDM_SOURCE_DIR) / "kernels" / row.stage))
      if (entry.path().extension() == ".cu")
        for (const std::string& name : matches(read(entry.path()), std::regex(R"re(\.name = "(\w+)")re")))
          defined.insert(name);
    EXPECT_EQ(std::set<std::string>(row.variants.begin(), row.variants.end()), defined) << row.stage;
  }
}

TEST(KernelsReadme, ListsVariantsInTheOrderInWhichAutoTriesThem) {
  std::map<std::string, std::vector<std::string>> listed;
  for (const Row& row : rows()) listed[row.stage] = row.variants;
  registry().each([&](const auto& stage) {
    std::vector<std::string> built;
    for (const auto* variant : stage.variants) built.emplace_back(variant->name);
    if (built.empty()) return;  // a build without CUDA
    EXPECT_EQ(listed[std::string(stage.name)], built) << stage.name;
  });
}

}  // namespace
}  // namespace sdm
