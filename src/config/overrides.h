#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "config/parse.h"

namespace sdm::config {

/// The --set options, read. Settings and axes that fit no case at all are an error; finish() says so.
class Overrides {
 public:
  Overrides(const std::vector<std::string>& texts, Problems& problems);

  /// What --set adds to a section before it is expanded: sweeps of lists, no sweep where one value is set, checks,
  /// timing.
  void apply_to(Section& section);

  /// Lays the set values over a case's settings, those that its workload has.
  void apply_to(Layer& settings);

  /// Reports what was set and fits no case.
  void finish(Problems& problems) const;

 private:
  void read(const std::string& text, Problems& problems);
  void read_value(const std::string& path, const JsonNode& node, const Origin& origin, Problems& problems);

  Layer settings_;
  Sweep axes_;
  std::optional<std::vector<CheckSpec>> checks_;
  std::set<std::string> used_;  ///< paths of settings_ and axes_ that some case took
};

}  // namespace sdm::config
