#pragma once
// Storage formats (spec 2.1, 2.5): bf16, fp8 e4m3, int4. Bit-level on the host; the device uses its conversion
// instructions where they give the same bits (checked exhaustively on the GPU) and the host's code elsewhere.
#include "base/dtype.h"
#include "numerics/fp.h"

namespace sdm {

SDM_HD float from_bf16(bf16_t x) { return float_of(static_cast<std::uint32_t>(x.bits) << 16); }

/// Round to nearest even; overflow goes to Inf; every NaN becomes 0x7fff, as the device's conversion gives.
SDM_HD bf16_t to_bf16(float x) {
#if defined(__CUDA_ARCH__)
  bf16_t result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result.bits) : "f"(x));
  return result;
#else
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const bool is_nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return {static_cast<std::uint16_t>(is_nan ? 0x7fffu : rounded)};
#endif
}

/// Loads and stores of a row element in its storage type, arithmetic in float.
SDM_HD float load_element(float x) { return x; }
SDM_HD float load_element(bf16_t x) { return from_bf16(x); }
template <typename T>
SDM_HD T store_element(float x);
template <>
SDM_HD float store_element<float>(float x) {
  return canonical(x);
}
template <>
SDM_HD bf16_t store_element<bf16_t>(float x) {
  return to_bf16(x);
}

/// fp8 e4m3 (1-4-3, bias 7, no infinities, 0x7f NaN), nearest even, saturating at 448; NaN becomes 0x7f.
SDM_HD std::uint8_t to_e4m3(float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
  std::uint16_t pair;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(0.0f), "f"(x));
  return static_cast<std::uint8_t>(pair & 0xffu);
#else
  const std::uint32_t bits = bits_of(x);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  const std::uint8_t sign = static_cast<std::uint8_t>((bits >> 24) & 0x80u);
  if (magnitude > 0x7f800000u) return 0x7f;
  if (magnitude >= 0x43e80000u) return static_cast<std::uint8_t>(sign | 0x7eu);  // from 464, halfway to 480, saturate
  if (magnitude < 0x3c800000u) {  // below 2^-6: subnormal, steps of 2^-9; the addition rounds to nearest even
    const float shifted = float_of(magnitude) + 16384.0f;
    return static_cast<std::uint8_t>(sign | (bits_of(shifted) - bits_of(16384.0f)));
  }
  const std::uint32_t rounded = magnitude + 0x7ffffu + ((magnitude >> 20) & 1u);  // keep 3 of 23 mantissa bits
  return static_cast<std::uint8_t>(sign | ((rounded >> 20) - (120u << 3)));
#endif
}

SDM_HD float from_e4m3(std::uint8_t code) {
  const std::uint32_t magnitude = code & 0x7fu;
  const float value = float_of(magnitude << 20) * 1.329227995784916e36f;  // 2^120 moves the exponent bias from 7 to 127
  const float signed_value = float_of(bits_of(value) | (static_cast<std::uint32_t>(code & 0x80u) << 24));
  return magnitude == 0x7fu ? float_of(0x7fffffffu) : signed_value;
}

SDM_HD float rint_half_even(float x) {
#if defined(__CUDA_ARCH__)
  return rintf(x);
#else
  return __builtin_rintf(x);
#endif
}

SDM_HD float max_of(float a, float b) { return a < b ? b : a; }  // NaN in b is ignored; a is never NaN here

SDM_HD float abs_of(float x) { return float_of(bits_of(x) & 0x7fffffffu); }

/// IEEE division on both sides (no approximate reciprocal).
SDM_HD float div_rn(float a, float b) {
#if defined(__CUDA_ARCH__)
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

/// Scale of a quantized row from its largest magnitude (NaNs ignored): `limit` is 448 for fp8, 7 for int4.
SDM_HD float row_scale(float amax, float limit) { return max_of(1e-12f, div_rn(amax, limit)); }
inline constexpr float kFp8Limit = 448.0f;
inline constexpr float kInt4Limit = 7.0f;

/// q in [-8, 7]; NaN becomes 0.
SDM_HD int to_int4(float scaled) {
  const float rounded = rint_half_even(scaled);
  if (!(rounded == rounded)) return 0;
  if (rounded >= 7.0f) return 7;
  return rounded <= -8.0f ? -8 : static_cast<int>(rounded);
}

/// A byte holds column 2b in its high nibble and column 2b+1 in its low nibble, both two's complement.
SDM_HD std::uint8_t pack_int4(int even, int odd) {
  return static_cast<std::uint8_t>(((even & 0xf) << 4) | (odd & 0xf));
}
SDM_HD int int4_even(std::uint8_t byte) { return static_cast<std::int8_t>(byte) >> 4; }
SDM_HD int int4_odd(std::uint8_t byte) { return static_cast<std::int8_t>(static_cast<std::uint8_t>(byte << 4)) >> 4; }

}  // namespace sdm
