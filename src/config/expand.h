#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "config/parse.h"

namespace sdm {

/// Stage -> names of its variants. Beside these "auto" is always legal.
using VariantCatalogue = std::map<std::string, std::vector<std::string>>;

struct ExpandOptions {
  /// "path=value" of every --set, in order; later ones win. The value is JSON, or else a text. A list sweeps the path
  /// in every case. Each is applied after inheritance, to every case whose workload has the path.
  std::vector<std::string> overrides;
  VariantCatalogue variants;        ///< empty: any name is accepted
  std::size_t max_cases = 100'000;  ///< over all configs
};

/// All cases of the configs, in order: `cases` as listed, sweeps with the last path varying fastest.
/// Ids are <config>[/<case>][/<path's last component>=<value>...] and unique. Throws ConfigErrors with every problem.
std::vector<Case> expand(std::span<const ConfigFile> configs, const ExpandOptions& options = {});
std::vector<Case> expand(const ConfigFile& config, const ExpandOptions& options = {});

/// Loads and expands, and reports the problems of all files, their cases and the overrides at once.
std::vector<Case> load_cases(std::span<const std::string> paths, const ExpandOptions& options = {});

/// The same for a text in memory; `file` names it in messages.
std::vector<Case> parse_cases(std::string_view text, const std::string& file, const ExpandOptions& options = {});

/// What the cases come to after defaults, --set and sweeps, as a config that expands to the same cases under the same
/// ids: one object, or a list of objects when the cases come from several configs.
std::string effective_config_json(std::span<const Case> cases);

/// The published JSON schema (draft 2020-12) of a config: configs/schema.json.
std::string config_schema_json();

}  // namespace sdm
