#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sdm {

/// Optimal string alignment distance: inserts, deletes, replacements and swaps of neighbours, each at cost 1. Bytes.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `word`, or "" if none is near enough to be what was meant (ignoring case, at most a third
/// of the word's letters wrong, never more than three). A candidate that begins with `word` counts as near.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "; did you mean 'gather'?" or "": to be appended to an error's sentence.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

/// "a, b, c".
std::string join(std::span<const std::string> words, std::string_view separator = ", ");

/// Bytes with a binary unit and at most four digits: "0 B", "1023 B", "1.500 KiB", "141.0 GiB".
std::string human_bytes(double bytes);

/// Time with the unit that suits it: "0.850 µs", "465.1 µs", "3.328 ms", "12.50 s", "3 min 05 s", "2 h 07 min".
std::string human_microseconds(double microseconds);
inline std::string human_seconds(double seconds) { return human_microseconds(seconds * 1e6); }

/// "1,234,567" and "-1,234".
std::string with_thousands(std::int64_t value);
/// "12,345.7" with `decimals` digits after the point; "–" for values that are not finite.
std::string with_thousands(double value, int decimals);

/// Terminal columns of UTF-8 text: combining marks take 0, East Asian wide characters and emoji 2, all else 1.
/// A byte that is no UTF-8 takes 1. Escape sequences are not known here: measure before colouring.
std::size_t display_width(std::string_view text);

/// Cuts to at most `columns` columns, ending in "…" where something was cut off.
std::string shorten(std::string_view text, std::size_t columns);

/// Valid UTF-8: every byte that is part of no well-formed sequence becomes U+FFFD.
std::string valid_utf8(std::string_view text);

}  // namespace sdm
