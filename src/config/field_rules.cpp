// What follows from the table of fields.h: look-ups, legal values, their wording.
#include <algorithm>
#include <cmath>

#include "config/fields.h"

namespace sdm::config {
namespace {

/// The nearest integer scalar of a whole double, if it has one.
std::optional<Scalar> whole(double value) {
  constexpr double kTwo63 = 9223372036854775808.0;
  if (value != std::trunc(value)) return std::nullopt;
  if (value >= -kTwo63 && value < kTwo63) return Scalar(static_cast<std::int64_t>(value));
  if (value >= kTwo63 && value < 2 * kTwo63) return Scalar(static_cast<std::uint64_t>(value));
  return std::nullopt;
}

std::optional<Scalar> check_integer(const Field& field, const Scalar& value) {
  if (const auto* real = std::get_if<double>(&value)) {
    const auto integer = whole(*real);
    return integer ? check_integer(field, *integer) : std::nullopt;
  }
  std::uint64_t magnitude = 0;
  if (const auto* narrow = std::get_if<std::int64_t>(&value)) {
    if (*narrow < field.min) return std::nullopt;  // min >= 0 in every field
    magnitude = static_cast<std::uint64_t>(*narrow);
  } else if (const auto* wide = std::get_if<std::uint64_t>(&value)) {
    magnitude = *wide;
  } else {
    return std::nullopt;
  }
  if (magnitude > field.max || magnitude % field.multiple_of != 0) return std::nullopt;
  return value;
}

std::optional<Scalar> check_real(const Field& field, const Scalar& value) {
  double real = 0;
  if (const auto* narrow = std::get_if<std::int64_t>(&value)) {
    real = static_cast<double>(*narrow);
  } else if (const auto* wide = std::get_if<std::uint64_t>(&value)) {
    real = static_cast<double>(*wide);
  } else if (const auto* exact = std::get_if<double>(&value)) {
    real = *exact;
  } else {
    return std::nullopt;
  }
  const bool low = field.above_min ? !(real > field.real_min) : !(real >= field.real_min);
  if (low || !(real <= field.real_max)) return std::nullopt;
  return Scalar(real + 0.0);  // -0 becomes 0
}

std::optional<Scalar> check_choice(const Field& field, const Scalar& value) {
  const auto* text = std::get_if<std::string>(&value);
  if (!text) return std::nullopt;
  for (const Word& word : field.words) {
    const bool alias = std::find(word.aliases.begin(), word.aliases.end(), *text) != word.aliases.end();
    if (alias || word.name == *text) return Scalar(word.name);
  }
  return std::nullopt;
}

}  // namespace

std::vector<const Field*> fields_at(std::string_view path) {
  std::vector<const Field*> out;
  for (const Field& field : fields()) {
    if (field.path == path) out.push_back(&field);
  }
  return out;
}

bool is_section(std::string_view path) {
  return std::any_of(fields().begin(), fields().end(), [&](const Field& field) {
    return field.path.size() > path.size() && field.path.compare(0, path.size(), path) == 0 &&
           field.path[path.size()] == '.';
  });
}

std::vector<std::string> keys_in(std::string_view section, std::optional<WorkloadKind> kind) {
  std::vector<std::string> out;
  const std::string prefix = section.empty() ? "" : std::string(section) + ".";
  for (const Field& field : fields()) {
    if (field.path.compare(0, prefix.size(), prefix) != 0 || (kind && !applies(field, *kind))) continue;
    const std::string key = field.path.substr(prefix.size(), field.path.find('.', prefix.size()) - prefix.size());
    if (std::find(out.begin(), out.end(), key) == out.end()) out.push_back(key);
  }
  return out;
}

bool applies(const Field& field, WorkloadKind kind) {
  return field.scope == Scope::common || (field.scope == Scope::sparse) == (kind == WorkloadKind::sparse);
}

bool applies(const Field& field, WorkloadKind kind, std::string_view distribution) {
  return applies(field, kind) && (field.distribution.empty() || field.distribution == distribution);
}

std::optional<Scalar> check_value(const Field& field, const Scalar& value) {
  switch (field.type) {
    case ValueType::boolean: return std::holds_alternative<bool>(value) ? std::optional(value) : std::nullopt;
    case ValueType::integer: return check_integer(field, value);
    case ValueType::real: return check_real(field, value);
    case ValueType::choice: return check_choice(field, value);
    case ValueType::text: break;
  }
  const auto* text = std::get_if<std::string>(&value);
  return text && !text->empty() ? std::optional(value) : std::nullopt;
}

std::string legal_text(const Field& field) {
  switch (field.type) {
    case ValueType::boolean: return "true or false";
    case ValueType::text: return "a text that is not empty";
    case ValueType::integer: {
      const std::string range = fmt::format("an integer from {} to {}", field.min, field.max);
      return field.multiple_of == 1 ? range : fmt::format("{} in steps of {}", range, field.multiple_of);
    }
    case ValueType::real:
      return field.above_min ? fmt::format("a number above {}, at most {}", field.real_min, field.real_max)
                             : fmt::format("a number from {} to {}", field.real_min, field.real_max);
    case ValueType::choice: break;
  }
  std::vector<std::string> words;
  for (const Word& word : field.words) words.push_back(word.name);
  return "one of " + joined(words);
}

std::string default_text(const Field& field) {
  const Draft untouched;
  return plain_text(field.get(untouched));
}

}  // namespace sdm::config
