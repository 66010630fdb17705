#pragma once
#include <cstdint>

#include "base/rng.h"
#include "workload/sparse.h"

namespace sdm {

/// Signs that an input allows: any; none above zero (log-decays); none below zero and nothing infinite (write gates).
enum class Allowed : std::uint8_t { any, not_above_zero, from_zero };

/// The word that decides about number `index` of a row or a bank, independent of the number itself.
inline std::uint32_t special_word(std::uint64_t seed, Purpose purpose, std::uint64_t index, std::uint32_t y,
                                  std::uint32_t z) {
  const auto shifted =
      static_cast<Purpose>(static_cast<std::uint32_t>(purpose) + static_cast<std::uint32_t>(Purpose::special));
  const std::uint64_t block = index / 4;
  // A bank's index has more than 32 bits; rows have a y of their own and short indices.
  return random_block(seed, shifted, static_cast<std::uint32_t>(block), y ^ static_cast<std::uint32_t>(block >> 32), z)
      .word[index % 4];
}

/// `ordinary`, or what Values puts in its place: a pure function of its arguments.
float with_special(Values values, Allowed allowed, float ordinary, std::uint32_t word);

}  // namespace sdm
