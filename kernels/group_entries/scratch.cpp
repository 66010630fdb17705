#include <algorithm>

#include "kernels/group_entries/group_entries.h"

namespace sdm::group_entries {

std::int64_t scratch_bytes(const Dims& dims) {
  constexpr std::int64_t kPairBytes = 8, kLists = 2;
  const std::int64_t positions = std::max(dims.write_positions(), dims.read_positions());
  return std::min(2 * dims.chunks(), kRadixBlocks) * kLists * kPairBytes * positions;
}

}  // namespace sdm::group_entries
