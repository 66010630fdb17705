#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

namespace sdm {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

struct CodePoint {
  char32_t value;
  std::size_t bytes;
  bool valid;
};

/// Decodes the sequence at `at`. Overlong forms, surrogates, values past U+10FFFF and cut sequences are invalid and
/// take one byte.
CodePoint decode(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = byte(at);
  if (lead < 0x80) return {lead, 1, true};
  const CodePoint bad{0xFFFD, 1, false};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + bytes > text.size()) return bad;
  char32_t value = lead & (0x7Fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return bad;
    value = (value << 6) | (byte(at + i) & 0x3F);
  }
  constexpr char32_t smallest[] = {0, 0, 0x80, 0x800, 0x10000};
  if (value < smallest[bytes] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return bad;
  return {value, bytes, true};
}

struct Range {
  char32_t first, last;
};

template <std::size_t N>
bool in_any(char32_t value, const std::array<Range, N>& ranges) {
  return std::any_of(ranges.begin(), ranges.end(), [&](Range r) { return value >= r.first && value <= r.last; });
}

std::size_t columns_of(char32_t value) {
  static constexpr std::array<Range, 7> zero = {{{0x0300, 0x036F},
                                                 {0x1AB0, 0x1AFF},
                                                 {0x1DC0, 0x1DFF},
                                                 {0x200B, 0x200F},
                                                 {0x20D0, 0x20FF},
                                                 {0xFE00, 0xFE0F},
                                                 {0xFE20, 0xFE2F}}};
  static constexpr std::array<Range, 9> wide = {{{0x1100, 0x115F},
                                                 {0x2E80, 0x303E},
                                                 {0x3041, 0xA4CF},
                                                 {0xAC00, 0xD7A3},
                                                 {0xF900, 0xFAFF},
                                                 {0xFE30, 0xFE6F},
                                                 {0xFF00, 0xFF60},
                                                 {0x1F300, 0x1FAFF},
                                                 {0x20000, 0x3FFFD}}};
  if (value < 0x0300) return 1;
  if (in_any(value, zero)) return 0;
  return in_any(value, wide) ? 2 : 1;
}

/// Four significant digits, fixed notation.
std::string four_digits(double value) {
  const double size = std::fabs(value);
  const int decimals = size < 9.9995 ? 3 : size < 99.995 ? 2 : size < 999.95 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

}  // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
  // Three rolling rows of the table: two back (for swaps), one back, current.
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0u : 1u)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::string nearest(std::string_view word, std::span<const std::string> candidates) {
  const std::string wanted = lower(word);
  if (wanted.empty() || wanted.size() > 64) return "";  // nobody mistypes a longer word
  const std::size_t allowed = std::min<std::size_t>(3, std::max<std::size_t>(1, wanted.size() / 3));
  const std::string* best = nullptr;
  std::size_t best_distance = allowed + 1;
  for (const std::string& candidate : candidates) {
    const std::string known = lower(candidate);
    const bool abbreviated = wanted.size() >= 3 && known.starts_with(wanted);
    const std::size_t longer = std::max(wanted.size(), known.size()), shorter = std::min(wanted.size(), known.size());
    if (longer - shorter > allowed && !abbreviated) continue;  // the distance is no less: spares most tables
    std::size_t distance = edit_distance(wanted, known);
    // An abbreviation is what was meant, but a near spelling of equal length is better still.
    if (abbreviated) distance = std::min(distance, allowed);
    // A replacement of every letter is no spelling mistake.
    if (distance >= longer) continue;
    if (distance < best_distance) best = &candidate, best_distance = distance;
  }
  return best ? *best : "";
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  const std::string found = nearest(word, candidates);
  return found.empty() ? "" : fmt::format("; did you mean '{}'?", found);
}

std::string join(std::span<const std::string> words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string human_bytes(double bytes) {
  if (!std::isfinite(bytes)) return "–";
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  std::size_t unit = 0;
  while (std::fabs(bytes) >= 1023.5 && unit + 1 < std::size(units)) bytes /= 1024, ++unit;
  return unit == 0 ? fmt::format("{:.0f} B", bytes) : fmt::format("{} {}", four_digits(bytes), units[unit]);
}

std::string human_microseconds(double microseconds) {
  if (!std::isfinite(microseconds)) return "–";
  const double size = std::fabs(microseconds);
  if (size < 999.95) return four_digits(microseconds) + " µs";
  if (size < 999.95e3) return four_digits(microseconds * 1e-3) + " ms";
  if (size < 119.5e6) return four_digits(microseconds * 1e-6) + " s";
  const auto seconds = static_cast<std::int64_t>(std::llround(std::min(size * 1e-6, 1e15)));
  const char* sign = microseconds < 0 ? "-" : "";
  if (seconds < 7200) return fmt::format("{}{} min {:02} s", sign, seconds / 60, seconds % 60);
  return fmt::format("{}{} h {:02} min", sign, seconds / 3600, seconds % 3600 / 60);
}

namespace {
/// Commas between groups of three digits before the point.
std::string group_digits(std::string_view digits) {
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  const std::size_t point = std::min(digits.find('.'), digits.size());
  std::string grouped;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > first && i < point && (point - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}
}  // namespace

std::string with_thousands(std::int64_t value) { return group_digits(fmt::format("{}", value)); }

std::string with_thousands(double value, int decimals) {
  return std::isfinite(value) ? group_digits(fmt::format("{:.{}f}", value, decimals)) : "–";
}

std::size_t display_width(std::string_view text) {
  std::size_t columns = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    columns += point.valid ? columns_of(point.value) : 1;
    at += point.bytes;
  }
  return columns;
}

std::string shorten(std::string_view text, std::size_t columns) {
  if (display_width(text) <= columns) return std::string(text);
  if (columns == 0) return "";
  std::string out;
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    const std::size_t width = point.valid ? columns_of(point.value) : 1;
    if (used + width > columns - 1) break;
    used += width;
    out += text.substr(at, point.bytes);
    at += point.bytes;
  }
  return out + "…";
}

std::string valid_utf8(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode(text, at);
    if (point.valid)
      out += text.substr(at, point.bytes);
    else
      out += "\xEF\xBF\xBD";
    at += point.bytes;
  }
  return out;
}

}  // namespace sdm
