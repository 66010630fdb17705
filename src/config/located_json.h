#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "config/problems.h"

namespace sdm::config {

/// A JSON value without children. Integers are int64 where they fit, else uint64; whole numbers beyond that, and all
/// numbers written with a fraction or an exponent, are double (always finite).
using Scalar = std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string>;

struct JsonMember;

/// A JSON value that remembers where its text began. Object members keep the order of the file.
struct JsonNode {
  enum class Kind : std::uint8_t { scalar, array, object };
  Kind kind = Kind::scalar;
  Location at;
  Scalar scalar;                    ///< kind == scalar
  std::vector<JsonNode> items;      ///< kind == array
  std::vector<JsonMember> members;  ///< kind == object, keys unique

  const JsonNode* find(std::string_view key) const;
};

struct JsonMember {
  std::string key;
  Location at;  ///< of the key
  JsonNode value;
};

/// What a text may cost at most: configs come from people, and from fuzzers.
struct JsonLimits {
  std::size_t bytes = std::size_t{4} << 20;
  std::size_t values = 200'000;
  int depth = 32;
};

/// Reads one JSON text (RFC 8259) that may hold // and /* */ comments and start with a UTF-8 byte order mark. Adds a
/// problem for every duplicate key, and one for the first thing that is not JSON; then there is no value.
std::optional<JsonNode> read_json(std::string_view text, const std::string& file, Problems& problems,
                                  const JsonLimits& limits = {});

/// "an object", "a list", "null", "true or false", "an integer", "a number", "a text": for messages.
std::string_view kind_name(const JsonNode& node);

/// The value as JSON text on one line, shortened to about 60 characters: for messages.
std::string shown(const JsonNode& node);
std::string shown(const Scalar& scalar);

/// The value as it stands in case ids and parameter lists: texts without quotes, numbers in their shortest form.
std::string plain_text(const Scalar& scalar);

}  // namespace sdm::config
