#pragma once
#include <cstdint>
#include <cstring>

#include "base/dtype.h"
#include "base/rng.h"
#include "numerics/fp.h"

// The elements of a generated bank. Host and device code include this unchanged, so a bank can be filled in place on
// either side with the same bits. Element e of the bank [P*slots, D] (row-major, e = row*D + column) is word e%4 of
// block e/4. `bank` is Purpose::memory_bank or Purpose::gradient_bank.

namespace sdm {

/// Elements 4*quad .. 4*quad+3 as words.
SDM_HD RandomBlock bank_block(std::uint64_t seed, Purpose bank, std::uint64_t quad) {
  return random_block(seed, bank, static_cast<std::uint32_t>(quad), static_cast<std::uint32_t>(quad >> 32), 0);
}

/// One element of an f32 bank, in [-1, 1).
SDM_HD float bank_value(std::uint64_t seed, Purpose bank, std::uint64_t element) {
  return signed_unit(bank_block(seed, bank, element / 4).word[element % 4]);
}

/// Round to nearest even of a finite float; the generator makes no NaN.
SDM_HD std::uint16_t bf16_bits_of_finite(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);  // std::bit_cast is not callable on the device without relaxed constexpr
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

SDM_HD float float_of_bf16(std::uint16_t bits) {
  const std::uint32_t wide = std::uint32_t{bits} << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

/// One element of a bf16 bank: the f32 element rounded, in [-1, 1] (the largest values round up to 1).
SDM_HD bf16_t bank_value_bf16(std::uint64_t seed, Purpose bank, std::uint64_t element) {
  return bf16_t{bf16_bits_of_finite(bank_value(seed, bank, element))};
}

}  // namespace sdm
