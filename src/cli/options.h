#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sdm {

/// Flags that every verb takes.
struct CommonOptions {
  std::string output = "-", format;  ///< format empty: by the output's ending, else the verb's own
  bool force = false, quiet = false, verbose = false;
  std::string color = "auto";
};

/// Which cases of which configs.
struct CaseOptions {
  std::vector<std::string> configs, set;
  std::string filter;  ///< ECMAScript regular expression over case ids; empty: all
  std::optional<std::uint64_t> seed;
  bool shuffle = false;
};

struct RunOptions {
  CommonOptions common;
  CaseOptions cases;
  std::string device = "auto";
  int threads = 0;
  std::string geometry;  ///< "tile=64,warps=4,depth=8", any of them; empty: the variants' own rules
  bool no_timing = false, no_checks = false, quick = false, profile = false, portable = false, dry_run = false;
  std::vector<std::string> ab;  ///< one or two overrides "path=value[;path=value]": interleaved A/B instead of a run
  bool calibrate = false;
  bool isolate = false;  ///< every case in a process of its own
  std::optional<double> max_determinism_cost;
  std::string plant;     ///< a planted fault (docs/planted_faults.md); empty: honest
  std::string plant_in;  ///< spoils only cases whose id matches this regular expression; empty: all
};

struct ConformOptions {
  CommonOptions common;
  std::vector<std::string> paths;
  std::string device = "auto";
  bool portable = false;
};

struct CheckOptions {
  CommonOptions common;
  CaseOptions cases;
};

struct ListOptions {
  CommonOptions common;
  CaseOptions cases;
  bool json = false;
};

struct ReportOptions {
  CommonOptions common;
  std::string file;
};

struct CompareOptions {
  CommonOptions common;
  std::vector<std::string> base, now;  ///< result files; `now` empty: base holds the two to compare
  std::string thresholds;              ///< a thresholds file; empty: none
  std::optional<double> relative, absolute_us;
  bool digests = false, cross_device = false, require_all = false;
};

struct GenOptions {
  CommonOptions common;
  CaseOptions cases;
  std::string out;       ///< the folder
  bool outputs = false;  ///< also the results of a replay run
};

struct EnvOptions {
  CommonOptions common;
  bool json = false;
};

struct RoofOptions {
  CommonOptions common;
  std::string device = "auto";
  std::vector<std::int64_t> row_bytes{256, 512, 2048};
  double seconds = 0.5;
  bool json = false;
};

/// The hidden verb `numerics` (docs/determinism.md).
struct NumericsOptions {
  CommonOptions common;
  std::string device = "cuda";
  int threads = 0;
  std::uint32_t blocks = 4096;  ///< of 2^20 inputs each; 4096 are all
  std::optional<std::uint64_t> fault;
};

/// Parses the command line and calls the verb. Returns the exit code. Throws UserError.
int run_command_line(int argc, char** argv);

}  // namespace sdm
