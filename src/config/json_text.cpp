// The parts of located_json.h that turn values into text.
#include "config/located_json.h"

namespace sdm::config {
namespace {

template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

constexpr std::size_t kShown = 60;

void append_shown(std::string& out, const JsonNode& node) {
  if (out.size() > kShown) return;
  if (node.kind == JsonNode::Kind::scalar) {
    out += shown(node.scalar);
    return;
  }
  const bool list = node.kind == JsonNode::Kind::array;
  std::string_view separator = list ? "[" : "{";
  for (const JsonNode& item : node.items) {
    out += separator;
    separator = ", ";
    append_shown(out, item);
    if (out.size() > kShown) return;
  }
  for (const JsonMember& member : node.members) {
    out += separator;
    out += in_quotes(member.key) + ": ";
    separator = ", ";
    append_shown(out, member.value);
    if (out.size() > kShown) return;
  }
  if (separator != ", ") out += separator;
  out += list ? "]" : "}";
}

}  // namespace

const JsonNode* JsonNode::find(std::string_view key) const {
  for (const JsonMember& member : members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

std::string_view kind_name(const JsonNode& node) {
  if (node.kind == JsonNode::Kind::object) return "an object";
  if (node.kind == JsonNode::Kind::array) return "a list";
  constexpr std::string_view kNames[] = {"null", "true or false", "an integer", "an integer", "a number", "a text"};
  return kNames[node.scalar.index()];
}

std::string shown(const Scalar& scalar) {
  if (const auto* text = std::get_if<std::string>(&scalar)) return in_quotes(*text);
  return plain_text(scalar);
}

std::string shown(const JsonNode& node) {
  std::string out;
  append_shown(out, node);
  if (node.kind != JsonNode::Kind::scalar && out.size() > kShown) {
    std::size_t cut = kShown;
    while (cut > 0 && (static_cast<unsigned char>(out[cut]) & 0xc0) == 0x80) --cut;  // not inside a UTF-8 sequence
    out = out.substr(0, cut) + "...";
  }
  return out;
}

std::string plain_text(const Scalar& scalar) {
  return std::visit(
      Overloaded{[](std::monostate) { return std::string("null"); }, [](const std::string& text) { return text; },
                 [](const auto& value) { return fmt::format("{}", value); }},
      scalar);
}

}  // namespace sdm::config
