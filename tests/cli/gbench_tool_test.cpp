#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "compare_support.h"

namespace sdm::test {
namespace {

// Where the package libbenchmark-tools puts google-benchmark's own scripts.
constexpr const char* kCompareTool = "/usr/share/benchmark/compare.py";

/// The stored result with every time of its cases multiplied by `factor`.
std::string slowed(double factor) {
  nlohmann::json result = nlohmann::json::parse(text_of(fixture("result_cpu.json")));
  for (nlohmann::json& c : result["cases"])
    for (const char* list : {"passes", "stages"})
      for (nlohmann::json& time : c[list])
        for (auto& [key, value] : time.items())
          if (key.ends_with("_us") && value.is_number()) value = value.get<double>() * factor;
  return result.dump();
}

/// The distribution's own Python has the distribution's packages, whatever comes first on the path.
std::string python_with_scipy(const ScratchFolder& folder) {
  for (const char* python : {"/usr/bin/python3", "python3"})
    if (folder.shell(std::string(python) + " -c 'import scipy, numpy'").exit_code == 0) return python;
  return "";
}

/// google-benchmark's real compare.py reads our files and finds that one is slower by half.
TEST(GbenchTool, ItsCompareScriptReadsOurFiles) {
  const ScratchFolder folder;
  const std::string python = python_with_scipy(folder);
  if (python.empty() || folder.shell(std::string("test -f ") + kCompareTool).exit_code != 0)
    GTEST_SKIP() << "no " << kCompareTool << " with scipy here (scripts/install_test_tools.sh installs both)";
  for (const auto& [name, factor] : {std::pair{"base", 1.0}, std::pair{"now", 1.5}}) {
    const std::string result = folder.write(std::string(name) + ".result.json", slowed(factor));
    const ToolRun report = folder.tool("report " + result + " --format gbench -o " + folder.file(name) + ".json");
    ASSERT_EQ(report.exit_code, 0) << report.err;
  }
  const ToolRun compared =
      folder.shell("PYTHONDONTWRITEBYTECODE=1 " + python + " " + kCompareTool + " --no-color benchmarks " +
                   folder.file("base.json") + " " + folder.file("now.json"));
  ASSERT_EQ(compared.exit_code, 0) << compared.err;
  const auto rows = nlohmann::json::parse(text_of(folder.file("base.json")))["benchmarks"];
  int slower = 0;
  for (std::size_t at = 0; (at = compared.out.find("+0.50", at)) != std::string::npos; ++at) ++slower;
  EXPECT_GE(slower, static_cast<int>(rows.size())) << compared.out;  // real time, cpu time, and the geometric mean
}

}  // namespace
}  // namespace sdm::test
