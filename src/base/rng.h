#pragma once
#include <Random123/philox.h>

#include <cstdint>

#include "numerics/fp.h"

// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// Every number is a pure function of the seed and its coordinates, so any machine, thread count or GPU draws the same
// bits, and no number depends on how many others were drawn. The key is the seed; the counter is three coordinates and
// the purpose, so that distinct (seed, purpose, coordinates) never share a block.
//
// Words become floats by exact scaling alone. No libm function decides a bit anywhere in the generator.

namespace sdm {

/// What a number is drawn for. The values are part of the bits: append, never renumber.
enum class Purpose : std::uint32_t {
  memory_bank = 1,
  gradient_bank = 2,
  write_slots = 3,
  read_slots = 4,
  write_strength = 5,
  read_strength = 6,
  decay = 7,
  value = 8,
  write_gate = 9,
  d_reading = 10,
  slot_scatter = 11,
  roof_rows = 12,
  dense_key = 20,
  dense_value = 21,
  dense_gate = 22,
  dense_decay = 23,
  dense_d_out = 24,
  dense_state = 25,
  special = 64,  ///< added to the purpose of the number that a special value may replace
};

struct RandomBlock {
  std::uint32_t word[4];
};

/// The four words at coordinates (x, y, z).
SDM_HD RandomBlock random_block(std::uint64_t seed, Purpose purpose, std::uint32_t x, std::uint32_t y,
                                std::uint32_t z) {
  const philox4x32_ctr_t counter = {{x, y, z, static_cast<std::uint32_t>(purpose)}};
  const philox4x32_key_t key = {{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}};
  const philox4x32_ctr_t words = philox4x32(counter, key);
  return {{words.v[0], words.v[1], words.v[2], words.v[3]}};
}

/// [-1, 1) in steps of 2^-23: 24 bits fit a float, so both operations are exact.
SDM_HD float signed_unit(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word) >> 8) * 0x1p-23f;
}

/// [0, 1) in steps of 2^-24, exact. The low 8 bits of the word are not used.
SDM_HD float unit(std::uint32_t word) { return static_cast<float>(static_cast<std::int32_t>(word >> 8)) * 0x1p-24f; }

/// floor(n * u / 2^64) for u = high:low and n < 2^31: a number below n, biased by less than n/2^64.
SDM_HD std::uint32_t scale_below(std::uint32_t high, std::uint32_t low, std::uint32_t n) {
  const std::uint64_t carry = (std::uint64_t{low} * n) >> 32;
  return static_cast<std::uint32_t>((std::uint64_t{high} * n + carry) >> 32);
}

/// The numbers of one (purpose, y, z) in order: block 0, block 1, ..., word 0 to 3 of each.
class RandomSequence {
 public:
  RandomSequence(std::uint64_t seed, Purpose purpose, std::uint32_t y, std::uint32_t z)
      : seed_(seed), purpose_(purpose), y_(y), z_(z) {}

  std::uint32_t next() {
    if (used_ == 4) {
      block_ = random_block(seed_, purpose_, next_block_++, y_, z_);
      used_ = 0;
    }
    return block_.word[used_++];
  }

  /// Below n, from two words; n in [1, 2^31).
  std::uint32_t below(std::uint32_t n) {
    const std::uint32_t high = next();
    return scale_below(high, next(), n);
  }

 private:
  std::uint64_t seed_;
  Purpose purpose_;
  std::uint32_t y_, z_;
  std::uint32_t next_block_ = 0;
  int used_ = 4;
  RandomBlock block_{};
};

}  // namespace sdm
