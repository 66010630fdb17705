#pragma once
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "config/expand.h"

namespace sdm::test {

/// Every problem of a config text and its cases, one line each; empty when it is legal.
inline std::string problems_of(const std::string& text, const std::vector<std::string>& overrides = {},
                               const VariantCatalogue& variants = {}) {
  ExpandOptions options;
  options.overrides = overrides;
  options.variants = variants;
  try {
    parse_cases(text, "x.json", options);
  } catch (const ConfigErrors& errors) {
    return errors.what();
  }
  return "";
}

inline std::vector<Case> cases_of(const std::string& text, const std::vector<std::string>& overrides = {}) {
  ExpandOptions options;
  options.overrides = overrides;
  return parse_cases(text, "x.json", options);
}

inline std::vector<std::string> ids_of(const std::vector<Case>& cases) {
  std::vector<std::string> ids;
  for (const Case& c : cases) ids.push_back(c.id);
  return ids;
}

/// A legal config with these further members, for example R"("sweep": {...})".
inline std::string sparse_config(const std::string& workload, const std::string& more = "") {
  std::string text = R"({"schema": 1, "name": "t", "workload": {"kind": "sparse")";
  if (!workload.empty()) text.append(", ").append(workload);
  text.append("}");
  if (!more.empty()) text.append(", ").append(more);
  return text.append("}");
}

inline std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace sdm::test
