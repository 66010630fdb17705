#include "config/located_json.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <set>

#include "config/utf8.h"

namespace sdm::config {
namespace {

/// Not JSON; caught by read_json.
struct SyntaxError {
  Location at;
  std::string message;
};

class Reader {
 public:
  Reader(std::string_view text, const std::string& file, Problems& problems, const JsonLimits& limits)
      : text_(text), file_(file), problems_(problems), limits_(limits) {}

  JsonNode document() {
    skip_blank();
    if (at_end()) fail("the file holds no JSON value; a config is an object {...}");
    JsonNode node = value(0);
    skip_blank();
    if (!at_end()) fail(fmt::format("{} after the end of the JSON value", next_shown()));
    return node;
  }

 private:
  bool at_end() const { return position_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[position_]; }
  bool starts_with(std::string_view word) const { return text_.substr(position_, word.size()) == word; }
  Location here() const { return {line_, static_cast<int>(position_ - line_start_) + 1}; }
  [[noreturn]] void fail(std::string message) const { throw SyntaxError{here(), std::move(message)}; }
  [[noreturn]] static void fail_at(Location at, std::string message) { throw SyntaxError{at, std::move(message)}; }

  void advance(std::size_t count = 1) {
    for (; count > 0 && !at_end(); --count) {
      if (text_[position_++] == '\n') {
        ++line_;
        line_start_ = position_;
      }
    }
  }

  std::string next_shown() const {
    if (at_end()) return "the file ends";
    const auto byte = static_cast<unsigned char>(peek());
    if (byte >= 0x20 && byte < 0x7f) return fmt::format("unexpected '{}'", peek());
    return fmt::format("unexpected byte 0x{:02x}", static_cast<unsigned>(byte));
  }

  void skip_blank() {
    while (!at_end()) {
      const char c = peek();
      if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        advance();
      } else if (starts_with("//")) {
        while (!at_end() && peek() != '\n') advance();
      } else if (starts_with("/*")) {
        const Location opened = here();
        const std::size_t close = text_.find("*/", position_ + 2);
        if (close == std::string_view::npos) fail_at(opened, "the comment that begins here with /* is never closed");
        advance(close + 2 - position_);
      } else {
        return;
      }
    }
  }

  JsonNode value(int depth) {
    if (depth > limits_.depth) fail(fmt::format("nested deeper than {} levels", limits_.depth));
    if (++values_ > limits_.values) fail(fmt::format("more than {} values in one file", limits_.values));
    JsonNode node;
    node.at = here();
    const char c = peek();
    if (c == '{') {
      object(node, depth);
    } else if (c == '[') {
      array(node, depth);
    } else if (c == '"') {
      node.scalar = string();
    } else if (c == '-' || (c >= '0' && c <= '9')) {
      node.scalar = number();
    } else {
      node.scalar = word();
    }
    return node;
  }

  void object(JsonNode& node, int depth) {
    node.kind = JsonNode::Kind::object;
    std::set<std::string> keys;
    advance();
    skip_blank();
    if (peek() == '}') return advance();
    while (true) {
      const Location at = here();
      if (peek() == '}') fail("a comma before '}'; the last member of an object has none after it");
      if (peek() != '"') fail(fmt::format("{}; expected a key in double quotes", next_shown()));
      std::string key = string();
      skip_blank();
      if (peek() != ':') fail(fmt::format("{}; expected ':' after the key {}", next_shown(), in_quotes(key)));
      advance();
      skip_blank();
      const std::size_t outer = path_.size();
      path_ += (outer > 0 ? "." : "") + key;
      JsonNode child = value(depth + 1);
      if (!keys.insert(key).second) {
        problems_.add({file_, at, path_}, fmt::format("the key {} stands twice in one object", in_quotes(key)));
      } else {
        node.members.push_back({std::move(key), at, std::move(child)});
      }
      path_.resize(outer);
      if (!another('}', "an object")) return;
    }
  }

  void array(JsonNode& node, int depth) {
    node.kind = JsonNode::Kind::array;
    advance();
    skip_blank();
    if (peek() == ']') return advance();
    while (true) {
      if (peek() == ']') fail("a comma before ']'; the last item of a list has none after it");
      const std::size_t outer = path_.size();
      path_ += fmt::format("[{}]", node.items.size());
      node.items.push_back(value(depth + 1));
      path_.resize(outer);
      if (!another(']', "a list")) return;
    }
  }

  /// After a member: true when a comma announces another, false after the closing bracket.
  bool another(char close, std::string_view what) {
    skip_blank();
    if (peek() != ',' && peek() != close) {
      fail(fmt::format("{}; expected ',' or '{}' in {}", next_shown(), close, what));
    }
    const bool more = peek() == ',';
    advance();
    if (more) skip_blank();
    return more;
  }

  Scalar word() {
    const std::size_t begin = position_;
    std::size_t end = begin;
    while (end < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_')) ++end;
    const std::string_view name = text_.substr(begin, end - begin);
    if (name.empty()) fail(fmt::format("{}; expected a JSON value", next_shown()));
    Scalar out;
    if (name == "true" || name == "false") {
      out = name == "true";
    } else if (name != "null") {
      fail(fmt::format(
          "{} is no JSON value; legal: a finite number, a text in double quotes, true, false, null, [...] or "
          "{{...}}{}",
          in_quotes(name), did_you_mean(name, {"true", "false", "null"})));
    }
    advance(end - begin);
    return out;
  }

  std::size_t digits(std::size_t at) const {
    while (at < text_.size() && text_[at] >= '0' && text_[at] <= '9') ++at;
    return at;
  }

  /// The token of a number by the grammar of RFC 8259; sets `whole` when it has neither fraction nor exponent.
  std::string_view number_token(bool& whole) const {
    const auto bad = [&](std::string_view why) { fail(fmt::format("malformed number: {}", why)); };
    std::size_t at = position_ + (peek() == '-' ? 1 : 0);
    std::size_t end = digits(at);
    if (end == at) bad("no digit after '-'");
    if (end - at > 1 && text_[at] == '0') bad("a leading 0");
    whole = true;
    if (end < text_.size() && text_[end] == '.') {
      whole = false;
      at = end + 1;
      end = digits(at);
      if (end == at) bad("no digit after '.'");
    }
    if (end < text_.size() && (text_[end] == 'e' || text_[end] == 'E')) {
      whole = false;
      at = end + 1;
      if (at < text_.size() && (text_[at] == '+' || text_[at] == '-')) ++at;
      end = digits(at);
      if (end == at) bad("no digit in the exponent");
    }
    return text_.substr(position_, end - position_);
  }

  Scalar number() {
    bool whole = false;
    const std::string_view token = number_token(whole);
    const char* const begin = token.data();
    const char* const end = begin + token.size();
    Scalar out;
    std::int64_t narrow = 0;
    std::uint64_t wide = 0;
    double real = 0;
    if (whole && std::from_chars(begin, end, narrow).ec == std::errc{}) {
      out = narrow;
    } else if (whole && *begin != '-' && std::from_chars(begin, end, wide).ec == std::errc{}) {
      out = wide;
    } else if (std::from_chars(begin, end, real).ec == std::errc{} && std::isfinite(real)) {
      out = real;
    } else {
      fail(fmt::format("the number {}{} is outside the range of a 64-bit float", token.substr(0, 40),
                       token.size() > 40 ? "..." : ""));
    }
    advance(token.size());
    return out;
  }

  std::string string() {
    const Location opened = here();
    std::string out;
    advance();
    while (peek() != '"') {
      const auto byte = static_cast<unsigned char>(peek());
      if (at_end() || byte == '\n') fail_at(opened, "the text that begins here is never closed with '\"'");
      if (byte < 0x20) fail(fmt::format("control character 0x{:02x} in a text", static_cast<unsigned>(byte)));
      if (byte == '\\') {
        escape(out);
      } else {
        out += peek();
        advance();
      }
    }
    advance();
    return out;
  }

  void escape(std::string& out) {
    constexpr std::string_view kNames = "\"\\/bfnrt";
    constexpr std::string_view kBytes = "\"\\/\b\f\n\r\t";
    advance();
    const std::size_t known = at_end() ? std::string_view::npos : kNames.find(peek());
    if (known != std::string_view::npos) {
      out += kBytes[known];
      advance();
      return;
    }
    if (peek() != 'u') fail("unknown escape in a text; legal: \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
    std::uint32_t code = code_unit();
    if (code >= 0xd800 && code < 0xdc00 && starts_with("\\u")) {
      advance();
      const std::uint32_t low = code_unit();
      if (low < 0xdc00 || low > 0xdfff) fail("half a surrogate pair in a \\u escape");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    if (code >= 0xd800 && code < 0xe000) fail("half a surrogate pair in a \\u escape");
    append_utf8(out, code);
  }

  /// Four hexadecimal digits after the 'u' that is next.
  std::uint32_t code_unit() {
    advance();
    const std::string_view token = text_.substr(std::min(position_, text_.size()), 4);
    std::uint32_t code = 0;
    const auto parsed = std::from_chars(token.data(), token.data() + token.size(), code, 16);
    if (token.size() != 4 || parsed.ptr != token.data() + 4) fail("\\u wants four hexadecimal digits");
    advance(4);
    return code;
  }

  std::string_view text_;
  const std::string& file_;
  Problems& problems_;
  JsonLimits limits_;
  std::size_t position_ = 0;
  std::size_t line_start_ = 0;
  int line_ = 1;
  std::size_t values_ = 0;
  std::string path_;  ///< of the value being read, for duplicate keys
};

}  // namespace

std::optional<JsonNode> read_json(std::string_view text, const std::string& file, Problems& problems,
                                  const JsonLimits& limits) {
  if (text.size() > limits.bytes) {
    problems.add({file, {}, ""}, fmt::format("{} bytes long; at most {} are read", text.size(), limits.bytes));
    return std::nullopt;
  }
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.substr(0, 3) == kByteOrderMark) text.remove_prefix(3);
  if (const auto bad = first_bad_utf8(text)) {
    const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(*bad), '\n');
    problems.add(
        {file, {static_cast<int>(line), 0}, ""},
        fmt::format("byte 0x{:02x} is not UTF-8 here", static_cast<unsigned>(static_cast<unsigned char>(text[*bad]))));
    return std::nullopt;
  }
  try {
    return Reader(text, file, problems, limits).document();
  } catch (const SyntaxError& error) {
    problems.add({file, error.at, ""}, fmt::format("column {}: {}", error.at.column, error.message));
    return std::nullopt;
  }
}

}  // namespace sdm::config
