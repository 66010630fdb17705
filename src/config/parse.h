#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/sweep.h"

namespace sdm {

namespace config {

/// The keys that the top level of a config and each of its `cases` share.
struct Section {
  std::string name;
  Origin origin;
  Layer settings;  ///< workload, variants, launch, timing
  bool timed = false;
  std::optional<std::vector<CheckSpec>> checks;
  std::optional<Sweep> sweep;
};

}  // namespace config

/// A config file as read: each part is legal by itself; what a case makes of them is decided by expand().
struct ConfigFile {
  std::string file;
  config::Section top;                 ///< top.name is the config's name
  std::vector<config::Section> cases;  ///< empty: the top level is the one case
};

/// Reads one config. `file` names it in messages. Throws ConfigErrors with every problem of the text.
ConfigFile parse_config(std::string_view text, const std::string& file);

/// Reads a config file; "-" is stdin. Throws ConfigErrors, also for a file that cannot be read.
ConfigFile load_config(const std::string& path);

namespace config {

/// As parse_config, but adds to `problems`; what is left is good enough to look for further problems.
/// Nothing for a text that is not JSON or not an object.
std::optional<ConfigFile> read_config(std::string_view text, const std::string& file, Problems& problems);

/// The bytes of a file, or nothing after a report.
std::optional<std::string> read_file(const std::string& path, Problems& problems);

}  // namespace config
}  // namespace sdm
