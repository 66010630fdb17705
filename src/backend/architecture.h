#pragma once
#include <string_view>

namespace sdm {

/// Whether code built for a CMake architecture ("90a-real", "80-real", "90-virtual", "120") runs on a GPU of compute
/// capability `compute_capability` (90 for 9.0). Machine code runs on the same major and any later minor, an "a" target
/// on its own capability alone, an "f" target within its family, PTX on anything later.
bool runs_on(std::string_view architecture, int compute_capability);

}  // namespace sdm
