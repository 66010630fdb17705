#pragma once
#include "numerics/fp.h"

namespace sdm {

/// 2^x, at most 1 ulp off where the result is normal, exact at integers, 0 below -150, +Inf above 128, NaN for NaN.
/// x = n + r with |r| <= 1/2, both exact; 2^r by the Taylor series of e^(r ln2), whose truncation (below 5e-9) is under
/// a tenth of an ulp; 2^n is applied in two steps so that subnormal results round once.
SDM_HD float exp2_rn(float x) {
  constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
  const bool below = x < -150.0f;
  const bool above = x > 130.0f;
  const float y = below ? -150.0f : (above ? 130.0f : x);
  const float t = y + kRoundMagic;
  const float r = y - (t - kRoundMagic);
  const auto exponent = static_cast<std::int32_t>(bits_of(t) - bits_of(kRoundMagic));
  float q = 1.52527338040598403e-5f;
  q = fma_rn(q, r, 1.54035303933816099e-4f);
  q = fma_rn(q, r, 1.33335581464284434e-3f);
  q = fma_rn(q, r, 9.61812910762847716e-3f);
  q = fma_rn(q, r, 5.55041086648215800e-2f);
  q = fma_rn(q, r, 2.40226506959100712e-1f);
  q = fma_rn(q, r, 6.93147180559945309e-1f);
  const float p = fma_rn(q, r, 1.0f);
  const std::int32_t half = exponent >> 1;
  const float scale1 = float_of(static_cast<std::uint32_t>(half + 127) << 23);
  const float scale2 = float_of(static_cast<std::uint32_t>(exponent - half + 127) << 23);
  const float result = (p * scale1) * scale2;
  return below ? 0.0f : result;
}

}  // namespace sdm
