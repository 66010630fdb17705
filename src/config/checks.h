#pragma once
#include <optional>
#include <vector>

#include "config/config.h"
#include "config/located_json.h"

namespace sdm::config {

/// One option of a check, or a check without options (name empty). The table of these drives reading, printing and the
/// published schema, as fields.h does for the rest.
struct CheckOption {
  enum class Type : std::uint8_t { none, boolean, integer, word_list };
  CheckSpec::Kind kind;
  std::string check;  ///< the check's name
  std::string name;   ///< the option's name
  Type type = Type::none;
  std::int64_t min = 0, max = 0;   ///< integer
  std::vector<std::string> words;  ///< word_list: the legal words, each at most once
  std::string help;
  void (*set)(CheckSpec&, const JsonNode&) = nullptr;  ///< takes a value that was found legal
};

/// Every check, in the order in which the tool explains them; none has more than one option.
const std::vector<CheckOption>& check_options();

std::string legal_text(const CheckOption& option);

/// The list under `checks`: names, or objects with one key {name: {option: value}}. Reports everything that is wrong.
std::vector<CheckSpec> read_checks(const JsonNode& node, const Origin& origin, Problems& problems);

}  // namespace sdm::config
