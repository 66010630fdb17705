#include "backend/architecture.h"

#include <charconv>

namespace sdm {

bool runs_on(std::string_view architecture, int compute_capability) {
  int built = 0;
  const char* end = architecture.data() + architecture.size();
  const auto [rest, error] = std::from_chars(architecture.data(), end, built);
  if (error != std::errc()) return true;  // "native" and its like: only loading a kernel can tell
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  const bool later_in_family = compute_capability / 10 == built / 10 && compute_capability >= built;
  if (suffix.starts_with('a')) return compute_capability == built;
  if (suffix.starts_with('f') || suffix == "-real") return later_in_family;
  return compute_capability >= built;
}

}  // namespace sdm
