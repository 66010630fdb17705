#pragma once
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

namespace sdm::test {

namespace fs = std::filesystem;

inline std::string slurp(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void spill(const fs::path& path, const std::string& text) { std::ofstream(path, std::ios::binary) << text; }

/// A folder that goes away with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string pattern = (fs::temp_directory_path() / "sdm_cli_XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TempFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  const fs::path& path() const { return path_; }
  fs::path operator/(const std::string& name) const { return path_ / name; }
  std::string file(const std::string& name, const std::string& text) const {
    spill(path_ / name, text);
    return (path_ / name).string();
  }

 private:
  fs::path path_;
};

struct Outcome {
  int code = -1;  ///< exit code, or 128 + signal
  std::string out, err;
};

/// sdm-bench with arguments; stdout and stderr go to files. `prepare` runs in the child before the program starts:
/// system calls only.
class Process {
 public:
  explicit Process(std::vector<std::string> arguments, const std::vector<std::string>& environment = {},
                   void (*prepare)() = nullptr) {
    arguments.insert(arguments.begin(), SDM_BENCH_PATH);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    const std::string out = (folder_ / "out").string(), err = (folder_ / "err").string();
    child_ = ::fork();
    if (child_ != 0) return;
    ::dup2(::open(out.c_str(), O_CREAT | O_WRONLY, 0600), STDOUT_FILENO);
    ::dup2(::open(err.c_str(), O_CREAT | O_WRONLY, 0600), STDERR_FILENO);
    for (const std::string& setting : environment) ::putenv(const_cast<char*>(setting.c_str()));
    if (prepare) prepare();
    ::execv(argv[0], argv.data());
    ::_exit(127);
  }

  void signal(int number) const { ::kill(child_, number); }
  pid_t id() const { return child_; }

  Outcome wait() {
    int status = 0;
    ::waitpid(child_, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), slurp(folder_ / "out"),
            slurp(folder_ / "err")};
  }

 private:
  TempFolder folder_;
  pid_t child_ = -1;
};

inline Outcome bench(const std::vector<std::string>& arguments, const std::vector<std::string>& environment = {}) {
  return Process(arguments, environment).wait();
}

/// Waits until `ready` holds, at most `seconds`.
template <typename Ready>
bool wait_until(Ready&& ready, double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!ready()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

inline std::string config(const std::string& name) { return SDM_SOURCE_DIR "/configs/" + name + ".json"; }

/// Two cases of a few milliseconds.
inline const std::string kTinyConfig = R"({
  "schema": 1, "name": "tiny",
  "workload": { "kind": "sparse", "streams": 2, "tokens": 12, "chunk": 4, "writes": 3, "reads": 2, "head_dim": 8, "slots": 16 },
  "sweep": { "workload.chunk": [4, 6] },
  "checks": ["guards", "oracle"],
  "timing": { "min_samples": 3, "max_seconds": 0.05, "per_stage": true }
})";

}  // namespace sdm::test
