#pragma once
#include <nlohmann/json.hpp>

#include "io/safetensors.h"

/// The description that a stored case carries under the metadata key `case`. Everything here throws UserError naming
/// the file at `path` and the field that is missing, of the wrong type or out of range.
namespace sdm::case_json {

using Json = nlohmann::json;

/// The whole description, an object.
Json read(const SafetensorsFile& file);

const Json& field(const Json& object, const char* key, const std::string& path);
/// An integer in [low, high].
std::int64_t integer(const Json& object, const char* key, std::int64_t low, std::int64_t high, const std::string& path);
std::string text(const Json& object, const char* key, const std::string& path);

}  // namespace sdm::case_json
