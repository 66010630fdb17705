#include "report/json_field.h"

#include <charconv>
#include <limits>

#include "base/error.h"
#include "base/text.h"

namespace sdm {
namespace {

/// The whole text as a decimal integer.
template <typename T>
std::optional<T> parse_integer(const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end || text.empty()) return std::nullopt;
  return value;
}

}  // namespace

void JsonField::fail(std::string_view what) const {
  throw UserError(fmt::format("{}: {} {}", *file_, path_.empty() ? "the document" : path_, what));
}

void JsonField::expected(std::string_view what) const {
  const std::string found = value_->is_structured()
                                ? value_->type_name()
                                : shorten(value_->dump(-1, ' ', false, Json::error_handler_t::replace), 60);
  fail(fmt::format("must be {}, but is {}", what, found));
}

JsonField JsonField::at(std::string_view key) const {
  if (!value_->is_object()) expected("an object");
  const auto found = value_->find(key);
  const std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  if (found == value_->end()) throw UserError(fmt::format("{}: {} is missing", *file_, path));
  return {*found, *file_, path};
}

std::vector<JsonField> JsonField::items() const {
  if (!value_->is_array()) expected("an array");
  std::vector<JsonField> items;
  items.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i)
    items.emplace_back((*value_)[i], *file_, fmt::format("{}[{}]", path_, i));
  return items;
}

std::map<std::string, JsonField> JsonField::members() const {
  if (!value_->is_object()) expected("an object");
  std::map<std::string, JsonField> members;
  for (const auto& [key, value] : value_->items())
    members.emplace(key, JsonField(value, *file_, fmt::format("{}.{}", path_, key)));
  return members;
}

std::string JsonField::text() const {
  if (!value_->is_string()) expected("a string");
  return value_->get<std::string>();
}

std::string JsonField::text_or_empty() const {
  if (is_null()) return "";
  if (!value_->is_string()) expected("a string or null");
  return text();
}

bool JsonField::boolean() const {
  if (!value_->is_boolean()) expected("true or false");
  return value_->get<bool>();
}

double JsonField::number() const {
  if (!value_->is_number()) expected("a number");
  return value_->get<double>();
}

std::optional<double> JsonField::number_or_null() const {
  if (is_null()) return std::nullopt;
  if (!value_->is_number()) expected("a number or null");
  return number();
}

int JsonField::small_integer() const {
  constexpr std::int64_t kLow = std::numeric_limits<int>::min(), kHigh = std::numeric_limits<int>::max();
  if (!value_->is_number_integer()) expected("an integer");
  const bool huge = value_->is_number_unsigned() && value_->get<std::uint64_t>() > static_cast<std::uint64_t>(kHigh);
  if (huge || value_->get<std::int64_t>() < kLow) expected(fmt::format("an integer in [{}, {}]", kLow, kHigh));
  return value_->get<int>();
}

std::optional<int> JsonField::small_integer_or_null() const {
  if (is_null()) return std::nullopt;
  return small_integer();
}

std::int64_t JsonField::integer() const {
  const auto value = value_->is_string() ? parse_integer<std::int64_t>(text()) : std::nullopt;
  if (!value) expected("a 64-bit integer as a string");
  return *value;
}

std::optional<std::uint64_t> JsonField::unsigned_or_null() const {
  if (is_null()) return std::nullopt;
  const auto value = value_->is_string() ? parse_integer<std::uint64_t>(text()) : std::nullopt;
  if (!value) expected("a non-negative 64-bit integer as a string, or null");
  return value;
}

std::vector<std::string> JsonField::texts() const {
  std::vector<std::string> texts;
  for (const JsonField& item : items()) texts.push_back(item.text());
  return texts;
}

std::map<std::string, std::string> JsonField::text_map() const {
  std::map<std::string, std::string> map;
  for (const auto& [key, field] : members()) map.emplace(key, field.text());
  return map;
}

}  // namespace sdm
