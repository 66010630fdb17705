#include "cli/run_again.h"

#include <fmt/format.h>

#include <utility>

#include "base/text.h"
#include "report/compare_command.h"

namespace sdm {

std::string rerun_command(const RunOptions& options, const std::string& id) {
  std::vector<std::string> words = {"sdm-bench", "run"};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  for (const std::string& config : options.cases.configs)
    words.push_back(config.starts_with('-') && config != "-" ? "./" + config : config);
  for (const std::string& set : options.cases.set) add("--set", set);
  if (options.cases.seed) add("--seed", std::to_string(*options.cases.seed));
  if (options.device != "auto") add("--device", options.device);
  add("--geometry", options.geometry);
  add("--plant", options.plant);
  add("--plant-in", options.plant_in);
  if (options.portable) words.emplace_back("--portable");
  add("--filter", "^" + regex_literal(id) + "$");
  for (std::string& word : words) word = shell_word(word);
  return join(words, " ");
}

std::vector<std::string> process_flags(const RunOptions& options, const std::string& device) {
  std::vector<std::string> flags = {"--device", device, "--threads", std::to_string(options.threads)};
  if (!options.geometry.empty()) flags.insert(flags.end(), {"--geometry", options.geometry});
  if (options.portable) flags.emplace_back("--portable");
  if (!options.plant.empty()) flags.insert(flags.end(), {"--plant", options.plant});
  if (!options.plant_in.empty()) flags.insert(flags.end(), {"--plant-in", options.plant_in});
  return flags;
}

std::vector<std::string> child_flags(const RunOptions& options, const std::string& device) {
  std::vector<std::string> flags = process_flags(options, device);
  for (const auto& [given, flag] : {std::pair{options.no_timing, "--no-timing"},
                                    {options.no_checks, "--no-checks"},
                                    {options.quick, "--quick"},
                                    {options.calibrate, "--calibrate"}})
    if (given) flags.emplace_back(flag);
  if (options.max_determinism_cost)
    flags.insert(flags.end(), {"--max-determinism-cost", fmt::format("{}", *options.max_determinism_cost)});
  return flags;
}

}  // namespace sdm
