#include "report/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace sdm {

ColorMode color_mode(std::string_view text) {
  const std::vector<std::string> names = {"auto", "always", "never"};
  for (std::size_t i = 0; i < names.size(); ++i)
    if (text == names[i]) return static_cast<ColorMode>(i);
  throw UserError(
      fmt::format("--color must be one of {}, but is '{}'{}", join(names), text, did_you_mean(text, names)));
}

bool color_wanted(ColorMode mode, int descriptor) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  if (no_color && *no_color) return false;
  return is_terminal(descriptor) && !(term && std::string_view(term) == "dumb");
}

bool is_terminal(int descriptor) { return ::isatty(descriptor) == 1; }

std::size_t terminal_width(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace sdm
