#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace sdm {

/// Where two arrays of one dtype and shape first differ. Bits are compared, -0 differs from +0; any NaN equals any NaN
/// (results hold the canonical one, stored inputs may hold others).
struct BitDifference {
  std::int64_t count = 0;  ///< elements that differ
  std::vector<std::int64_t> coordinate;
  std::string expected, actual;  ///< value and bits of the first one

  std::string sentence() const;
};

std::optional<BitDifference> compare_bits(DType dtype, std::span<const std::int64_t> shape, const void* expected,
                                          const void* actual);

}  // namespace sdm
