#include "workload/special_values.h"

#include "numerics/fp.h"

namespace sdm {
namespace {

constexpr std::uint32_t kSign = 0x80000000u, kInfinity = 0x7f800000u, kMantissa = 0x007fffffu;

/// Signed zeros, the ends of the subnormal range and numbers within it, by the word's upper bits.
std::uint32_t tiny(std::uint32_t word) {
  const std::uint32_t sign = word & kSign;
  switch ((word >> 8) & 3u) {
    case 0: return sign;
    case 1: return sign | ((word >> 10) & 1u ? 1u : kMantissa);
    default: return sign | ((word >> 7) & kMantissa);
  }
}

/// Any payload but zero, quiet or signalling.
std::uint32_t any_nan(std::uint32_t word) {
  const std::uint32_t payload = (word >> 6) & kMantissa;
  return (word & kSign) | kInfinity | (payload == 0 ? 1u : payload);
}

std::uint32_t special(Values values, std::uint32_t word, std::uint32_t ordinary) {
  if (values == Values::tiny) return word & 1u ? tiny(word) : ordinary;
  const std::uint32_t lot = word & 63u;
  if (lot == 0 && values == Values::nan) return any_nan(word);
  if (lot == 1) return (word & kSign) | kInfinity;
  return lot >= 2 && lot < 10 ? tiny(word) : ordinary;
}

}  // namespace

float with_special(Values values, Allowed allowed, float ordinary, std::uint32_t word) {
  if (values == Values::ordinary) return ordinary;
  const std::uint32_t bits = special(values, word, bits_of(ordinary)), magnitude = bits & ~kSign;
  if (allowed == Allowed::any || magnitude > kInfinity) return float_of(bits);
  if (allowed == Allowed::from_zero && magnitude == kInfinity) return ordinary;
  if (magnitude == 0) return float_of(bits);  // zeros of either sign are on both sides
  return float_of(allowed == Allowed::not_above_zero ? magnitude | kSign : magnitude);
}

}  // namespace sdm
