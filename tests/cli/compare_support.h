#pragma once
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace sdm::test {

struct ToolRun {
  int exit_code = -1;
  std::string out, err;
};

inline std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A folder of its own that goes away with the object.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sdm_cli_XXXXXX").string();
    if (!mkdtemp(pattern.data())) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return file(name);
  }

  /// Runs a shell command; stdout and stderr apart.
  ToolRun shell(const std::string& command) const {
    const int status = std::system(("( " + command + " ) > " + file(".out") + " 2> " + file(".err")).c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, text_of(path_ / ".out"), text_of(path_ / ".err")};
  }
  ToolRun tool(const std::string& arguments) const { return shell(std::string(SDM_BENCH_PATH) + " " + arguments); }

 private:
  std::filesystem::path path_;
};

inline std::string fixture(const std::string& name) { return std::string(SDM_SOURCE_DIR) + "/tests/fixtures/" + name; }

}  // namespace sdm::test
