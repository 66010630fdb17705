#include "report/layout.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/text.h"

namespace sdm {
namespace {

constexpr std::string_view kGap = "  ";

}  // namespace

std::string repeat(std::string_view piece, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += piece;
  return out;
}

std::string Paint::operator()(Ink ink, std::string_view text) const {
  static constexpr std::string_view codes[] = {"", "1", "2", "32", "31", "33"};
  if (!on_ || ink == Ink::plain || text.empty()) return std::string(text);
  return fmt::format("\x1b[{}m{}\x1b[0m", codes[static_cast<std::size_t>(ink)], text);
}

std::string one_line(std::string_view text) {
  std::string line = valid_utf8(text);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  // The C1 controls U+0080..U+009F start escape sequences as well.
  for (std::size_t at = 0; (at = line.find('\xC2', at)) != std::string::npos; ++at)
    if (static_cast<unsigned char>(line[at + 1]) < 0xA0) line.replace(at, 2, " ");
  return line;
}

void TextTable::add_row(std::vector<std::string> cells, Ink ink) {
  SDM_REQUIRE(cells.size() == columns_.size(), "a row of {} cells for {} columns", cells.size(), columns_.size());
  for (std::string& cell : cells) cell = one_line(cell);
  rows_.push_back({std::move(cells), ink});
}

void TextTable::add_rule() { rows_.push_back({{}, Ink::dim}); }

std::vector<std::size_t> TextTable::widths() const {
  std::vector<std::size_t> widths(columns_.size(), 0);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    bool used = false;
    std::size_t widest = std::max(columns_[i].min_width, display_width(columns_[i].header));
    for (const Row& row : rows_) {
      if (row.cells.empty() || row.cells[i].empty()) continue;
      used = true;
      widest = std::max(widest, display_width(row.cells[i]));
    }
    if (used) widths[i] = std::max<std::size_t>(widest, 1);
  }
  return widths;
}

std::string TextTable::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths) const {
  std::string out;
  bool first = true;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (widths[i] == 0) continue;
    const std::string pad(widths[i] - display_width(cells[i]), ' ');
    if (!std::exchange(first, false)) out += kGap;
    out += columns_[i].align == Align::left ? cells[i] + pad : pad + cells[i];
  }
  out.erase(out.find_last_not_of(' ') + 1);
  return out;
}

std::string TextTable::render(const Paint& paint, std::size_t indent) const {
  const std::vector<std::size_t> width = widths();
  std::vector<std::string> headers;
  std::size_t total = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    headers.push_back(columns_[i].header);
    if (width[i] > 0) total += width[i] + (total > 0 ? kGap.size() : 0);
  }
  const std::string margin(indent, ' ');
  const std::string rule = margin + paint(Ink::dim, repeat("─", total)) + "\n";
  std::string out = margin + paint(Ink::dim, line(headers, width)) + "\n" + rule;
  for (const Row& row : rows_) out += row.cells.empty() ? rule : margin + paint(row.ink, line(row.cells, width)) + "\n";
  return out;
}

std::string wrap_phrases(const std::vector<std::string>& phrases, std::size_t indent, std::size_t width) {
  std::string out, line;
  const auto flush = [&] {
    if (!line.empty()) out += std::string(indent, ' ') + line + "\n";
    line.clear();
  };
  for (const std::string& raw : phrases) {
    const std::string phrase = one_line(raw);
    if (!line.empty() && indent + display_width(line) + 3 + display_width(phrase) > width) flush();
    line += (line.empty() ? "" : " · ") + phrase;
  }
  flush();
  return out;
}

}  // namespace sdm
