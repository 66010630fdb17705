#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sdm {

enum class ColorMode : std::uint8_t { automatic, always, never };

/// Throws UserError unless `text` is auto, always or never.
ColorMode color_mode(std::string_view text);

/// Whether to colour what goes to `descriptor`: `automatic` means a terminal, with neither NO_COLOR
/// (https://no-color.org: set and not empty) nor TERM=dumb.
bool color_wanted(ColorMode mode, int descriptor);

bool is_terminal(int descriptor);

/// Columns of the terminal; 80 where that is not known.
std::size_t terminal_width(int descriptor);

}  // namespace sdm
