#include "io/case_json.h"

#include <fmt/format.h>

#include "base/error.h"

namespace sdm::case_json {

Json read(const SafetensorsFile& file) {
  const auto found = file.metadata().find("case");
  if (found == file.metadata().end())
    throw UserError(fmt::format("{}: no metadata key \"case\": this is not a stored case", file.path()));
  Json json = Json::parse(found->second, nullptr, false);
  if (!json.is_object()) throw UserError(fmt::format("{}: metadata key \"case\" is not a JSON object", file.path()));
  return json;
}

const Json& field(const Json& object, const char* key, const std::string& path) {
  const auto found = object.find(key);
  if (found == object.end()) throw UserError(fmt::format("{}: the case description lacks \"{}\"", path, key));
  return *found;
}

std::int64_t integer(const Json& object, const char* key, std::int64_t low, std::int64_t high,
                     const std::string& path) {
  const Json& value = field(object, key, path);
  if (!value.is_number_integer() || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    throw UserError(
        fmt::format("{}: case.{} is {}, an integer in [{}, {}] is needed", path, key, value.dump(), low, high));
  return value.get<std::int64_t>();
}

std::string text(const Json& object, const char* key, const std::string& path) {
  const Json& value = field(object, key, path);
  if (!value.is_string())
    throw UserError(fmt::format("{}: case.{} is {}, a string is needed", path, key, value.dump()));
  return value.get<std::string>();
}

}  // namespace sdm::case_json
