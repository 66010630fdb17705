#pragma once
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sdm {

/// A place in a JSON document that knows its path, so that every error can name it. Each access checks the type and
/// throws UserError "FILE: PATH must be .., but is ..". The document must outlive the field.
class JsonField {
 public:
  using Json = nlohmann::ordered_json;

  JsonField(const Json& value, const std::string& file, std::string path = "")
      : value_(&value), file_(&file), path_(std::move(path)) {}

  JsonField at(std::string_view key) const;  ///< a member that must be there
  std::vector<JsonField> items() const;      ///< of an array
  std::map<std::string, JsonField> members() const;

  bool is_null() const { return value_->is_null(); }
  const Json& json() const { return *value_; }

  std::string text() const;
  std::string text_or_empty() const;  ///< null: ""
  bool boolean() const;
  double number() const;
  std::optional<double> number_or_null() const;
  int small_integer() const;  ///< a JSON integer in int's range
  std::optional<int> small_integer_or_null() const;
  std::int64_t integer() const;  ///< a string of decimal digits
  std::optional<std::uint64_t> unsigned_or_null() const;
  std::vector<std::string> texts() const;
  std::map<std::string, std::string> text_map() const;

  [[noreturn]] void fail(std::string_view what) const;      ///< "FILE: PATH what"
  [[noreturn]] void expected(std::string_view what) const;  ///< "FILE: PATH must be what, but is .."

 private:
  const Json* value_;
  const std::string* file_;
  std::string path_;
};

/// For writing: text that may be missing.
inline JsonField::Json text_or_null(const std::string& value) {
  return value.empty() ? JsonField::Json(nullptr) : JsonField::Json(value);
}

}  // namespace sdm
