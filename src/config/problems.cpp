#include "config/problems.h"

#include <algorithm>

#include "base/text.h"

namespace sdm {

namespace {

/// A problem stays one line whatever the name of its file holds.
std::string without_controls(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", static_cast<unsigned>(byte)) : std::string(1, c);
  }
  return out;
}

}  // namespace

std::string ConfigProblem::text() const {
  std::string out = file;
  if (line > 0) out += fmt::format(":{}", line);
  out += ": ";
  if (!path.empty()) out += path + ": ";
  return without_controls(out + message);
}

namespace {

std::string all_lines(const std::vector<ConfigProblem>& problems, std::size_t dropped) {
  std::string out;
  for (const ConfigProblem& problem : problems) {
    if (!out.empty()) out += '\n';
    out += problem.text();
  }
  if (dropped > 0) out += fmt::format("\nand {} more", dropped);
  return out;
}

}  // namespace

ConfigErrors::ConfigErrors(std::vector<ConfigProblem> problems_, std::size_t dropped)
    : UserError(all_lines(problems_, dropped)), problems(std::move(problems_)) {}

namespace config {

void Problems::add(const Origin& origin, std::string message) {
  ConfigProblem problem{origin.file, origin.at.line, origin.path, std::move(message)};
  if (full()) {
    ++dropped_;
    return;
  }
  if (seen_.insert(problem.text()).second) list_.push_back(std::move(problem));
}

void Problems::raise() const {
  if (!list_.empty()) throw ConfigErrors(list_, dropped_);
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& legal) {
  const std::string found = nearest(word, legal);
  return found.empty() ? "" : fmt::format("; did you mean \"{}\"?", found);
}

std::string joined(const std::vector<std::string>& words) { return fmt::format("{}", fmt::join(words, ", ")); }

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kLongest = 60;
  std::size_t cut = std::min(kLongest, text.size());
  while (cut < text.size() && cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xc0) == 0x80) --cut;  // whole UTF-8
  std::string out = "\"";
  for (const char c : text.substr(0, cut)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(byte));
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + (cut < text.size() ? "...\"" : "\"");
}

}  // namespace config
}  // namespace sdm
