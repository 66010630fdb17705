#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/text.h"

namespace sdm {
namespace {

constexpr std::size_t kMaxRank = 64;

struct TypeRow {
  std::string_view name;
  std::size_t size;
};
/// In the order of StoredType.
constexpr std::array<TypeRow, 15> kTypes = {{{"BOOL", 1},
                                             {"U8", 1},
                                             {"I8", 1},
                                             {"F8_E5M2", 1},
                                             {"F8_E4M3", 1},
                                             {"I16", 2},
                                             {"U16", 2},
                                             {"F16", 2},
                                             {"BF16", 2},
                                             {"I32", 4},
                                             {"U32", 4},
                                             {"F32", 4},
                                             {"F64", 8},
                                             {"I64", 8},
                                             {"U64", 8}}};

std::optional<StoredType> type_named(std::string_view name) {
  const auto* row = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.name == name; });
  if (row == kTypes.end()) return std::nullopt;
  return static_cast<StoredType>(row - kTypes.begin());
}

/// Receives the header event by event and refuses the first one that has no place in the format, so that a hostile
/// header never grows into a document tree. Levels: 0 nothing, 1 the header, 2 a tensor or __metadata__, 3 an array.
class HeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderEvents(const std::string& path) : path_(path) {}
  SafetensorsHeader take() { return std::move(header_); }

  bool start_object(std::size_t) override {
    if (level_ >= 2) unexpected("an object");
    ++level_;
    if (level_ == 2 && !in_metadata()) entry_ = {}, seen_type_ = seen_shape_ = seen_offsets_ = false;
    return true;
  }

  bool end_object() override {
    if (level_ == 2 && !in_metadata()) finish_tensor();
    --level_;
    return true;
  }

  bool key(std::string& name) override {
    if (level_ == 1) {
      if (header_.tensors.contains(name) || (name == "__metadata__" && seen_metadata_))
        fail("names '{}' twice", shorten(name, 80));
      key_ = name;
      if (in_metadata()) seen_metadata_ = true;
    } else {
      field_ = name;
      if (in_metadata() && header_.metadata.contains(name)) fail("has the metadata key '{}' twice", shorten(name, 80));
      if (!in_metadata()) start_field();
    }
    return true;
  }

  bool start_array(std::size_t) override {
    if (level_ != 2 || in_metadata() || field_ == "dtype") unexpected("an array");
    ++level_;
    return true;
  }

  bool end_array() override {
    --level_;
    return true;
  }

  bool string(std::string& text) override {
    if (level_ == 2 && in_metadata()) {
      header_.metadata.emplace(field_, text);
    } else if (level_ == 2 && field_ == "dtype") {
      const std::optional<StoredType> type = type_named(text);
      if (!type) fail_tensor("has the unknown dtype '{}'{}", shorten(text, 40), legal_types());
      entry_.type = *type;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (level_ != 3) unexpected("a number");
    if (value > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()))
      fail_tensor("has a number in {} that is too large ({})", field_, value);
    if (field_ == "shape") {
      if (entry_.shape.size() == kMaxRank) fail_tensor("has more than {} dimensions", kMaxRank);
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else {
      if (offsets_ == 2) fail_tensor("has more than two data_offsets");
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    }
    return true;
  }

  bool number_integer(number_integer_t value) override {
    if (level_ != 3) unexpected("a number");
    fail_tensor("has a negative number in {} ({})", field_, value);
  }

  bool number_float(number_float_t, const string_t& text) override {
    if (level_ != 3) unexpected("a number");
    fail_tensor("has a number in {} that is no 64-bit integer ({})", field_, shorten(text, 40));
  }

  bool boolean(bool) override { unexpected("a boolean"); }
  bool null() override { unexpected("null"); }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail("has a header that is not valid JSON (at byte {} of the header)", position);
  }

 private:
  bool in_metadata() const { return key_ == "__metadata__"; }

  template <typename... Args>
  [[noreturn]] void fail(fmt::format_string<Args...> format, Args&&... args) const {
    throw UserError(fmt::format("{} {}", path_, fmt::format(format, std::forward<Args>(args)...)));
  }

  template <typename... Args>
  [[noreturn]] void fail_tensor(fmt::format_string<Args...> format, Args&&... args) const {
    throw UserError(
        fmt::format("{}: tensor '{}' {}", path_, shorten(key_, 80), fmt::format(format, std::forward<Args>(args)...)));
  }

  [[noreturn]] void unexpected(std::string_view what) const {
    if (level_ == 0) fail("has a header that is {}; it must be a JSON object", what);
    if (in_metadata() && level_ == 1) fail("has {} as __metadata__; it must be an object of strings", what);
    if (in_metadata()) fail("has {} as metadata '{}'; it must be a string", what, shorten(field_, 80));
    if (level_ == 1) fail_tensor("is {}; it must be an object with dtype, shape and data_offsets", what);
    const std::string_view legal = field_ == "dtype" ? "a string" : "an array of non-negative integers";
    fail_tensor("has {} in {}; it must be {}", what, field_, legal);
  }

  static std::string legal_types() {
    std::vector<std::string> names;
    for (const TypeRow& row : kTypes) names.emplace_back(row.name);
    return fmt::format(" (known: {})", join(names));
  }

  void start_field() {
    bool* seen = field_ == "dtype"          ? &seen_type_
                 : field_ == "shape"        ? &seen_shape_
                 : field_ == "data_offsets" ? &seen_offsets_
                                            : nullptr;
    if (!seen) fail_tensor("has the unknown key '{}'; the keys are dtype, shape and data_offsets", shorten(field_, 80));
    if (*seen) fail_tensor("has {} twice", field_);
    *seen = true;
    if (seen == &seen_offsets_) offsets_ = 0;
  }

  void finish_tensor() {
    if (!seen_type_) fail_tensor("has no dtype");
    if (!seen_shape_) fail_tensor("has no shape");
    if (!seen_offsets_ || offsets_ != 2) fail_tensor("needs data_offsets with two numbers: begin and end");
    if (entry_.begin > entry_.end)
      fail_tensor("ends before it begins (data_offsets [{}, {}])", entry_.begin, entry_.end);
    // A product that overflows on the way to a zero extent is refused too: no reader can index such a shape.
    std::uint64_t bytes = size_of(entry_.type);
    for (const std::int64_t extent : entry_.shape)
      if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes))
        fail_tensor("has a shape [{}] of more than 2^64 bytes", fmt::join(entry_.shape, ", "));
    if (bytes != entry_.end - entry_.begin)
      fail_tensor("has {} bytes of data, but {} [{}] needs {}", entry_.end - entry_.begin, name_of(entry_.type),
                  fmt::join(entry_.shape, ", "), bytes);
    header_.tensors.emplace(key_, std::move(entry_));
  }

  const std::string& path_;
  SafetensorsHeader header_;
  int level_ = 0;
  std::string key_, field_;
  bool seen_metadata_ = false;
  HeaderEntry entry_;
  bool seen_type_ = false, seen_shape_ = false, seen_offsets_ = false;
  int offsets_ = 0;
};

}  // namespace

std::string_view name_of(StoredType type) { return kTypes[static_cast<std::size_t>(type)].name; }
std::size_t size_of(StoredType type) { return kTypes[static_cast<std::size_t>(type)].size; }

SafetensorsHeader parse_safetensors_header(const std::string& path, std::string_view json) {
  // The parser takes a zero byte for the end of its input; whatever hides behind it must not pass.
  if (json.find('\0') != std::string_view::npos)
    throw UserError(fmt::format("{} has a header that is not valid JSON (it holds a zero byte)", path));
  HeaderEvents events(path);
  const bool complete = nlohmann::json::sax_parse(json.begin(), json.end(), &events);
  SDM_REQUIRE(complete, "a header was neither accepted nor refused");
  return events.take();
}

}  // namespace sdm
