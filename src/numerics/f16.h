#pragma once
// IEEE binary16 as a storage type beside bf16, and the choice between the two. Arithmetic is done in float.
#include "base/dispatch.h"
#include "numerics/formats.h"

namespace sdm {

struct f16_t {
  std::uint16_t bits;
  friend bool operator==(const f16_t&, const f16_t&) = default;
};
static_assert(sizeof(f16_t) == 2);

SDM_HD float from_f16(f16_t x) {
#if defined(__CUDA_ARCH__)
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(x.bits));
  return result;
#else
  const std::uint32_t sign = (x.bits & 0x8000u) << 16, magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) return float_of(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13));
  const float value = float_of(magnitude << 13) * 0x1p112f;  // moves the exponent bias from 15 to 127; exact
  return float_of(sign | bits_of(value));
#endif
}

/// Round to nearest even, subnormals kept; overflow goes to Inf; every NaN becomes 0x7fff.
SDM_HD f16_t to_f16(float x) {
#if defined(__CUDA_ARCH__)
  f16_t result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
#else
  const std::uint32_t bits = bits_of(x), magnitude = bits & 0x7fffffffu;
  const auto sign = static_cast<std::uint16_t>((bits >> 16) & 0x8000u);
  if (magnitude > 0x7f800000u) return {0x7fffu};
  if (magnitude >= 0x477ff000u)
    return {static_cast<std::uint16_t>(sign | 0x7c00u)};  // from 65520, halfway past the last
  if (magnitude < 0x38800000u) {  // below 2^-14: steps of 2^-24; the addition rounds to nearest even
    const float shifted = float_of(magnitude) + 0.5f;
    return {static_cast<std::uint16_t>(sign | (bits_of(shifted) - bits_of(0.5f)))};
  }
  const std::uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return {static_cast<std::uint16_t>(sign | ((rounded >> 13) - (112u << 10)))};
#endif
}

SDM_HD float load_element(f16_t x) { return from_f16(x); }
template <>
SDM_HD f16_t store_element<f16_t>(float x) {
  return to_f16(x);
}

/// Calls `body.template operator()<bf16_t or f16_t>()`.
template <typename Body>
void dispatch_half(DType dtype, Body&& body) {
  if (dtype == DType::bf16) return body.template operator()<bf16_t>();
  if (dtype != DType::f16) throw std::logic_error("bf16 or f16 expected, not " + std::string(name_of(dtype)));
  body.template operator()<f16_t>();
}

}  // namespace sdm
