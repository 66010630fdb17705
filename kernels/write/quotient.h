#pragma once
// x / scale for the quantized snapshot formats, without a division per element: the codes that the formats keep are
// those of the IEEE quotient (tests/unit/write_walk_test.cpp).
#include "numerics/formats.h"

namespace sdm::write {

/// row_scale of a largest magnitude in three operations: one correction by an exact remainder rounds amax / limit
/// correctly for both limits (every float: tests/unit/write_walk_test.cpp); what under- or overflows on the way is
/// below 1e-12 or infinite.
SDM_HD float quick_row_scale(float amax, float limit) {
  const float inverse = 1.0f / limit;
  const float rough = amax * inverse;
  const float exact = fma_rn(fma_rn(-rough, limit, amax), inverse, rough);
  return max_of(1e-12f, bits_of(amax) < 0x7f800000u ? exact : amax);
}

/// A row's scale with its reciprocal. Scales are at least 1e-12 and at most 2^126, or +Inf.
struct RowScale {
  float scale, reciprocal;
};
SDM_HD RowScale make_row_scale(float amax, float limit) {
  const float scale = row_scale(amax, limit);
  return {scale, div_rn(1.0f, scale)};
}

/// Two correction steps by exact remainders: the first makes the quotient faithful, the second (Markstein: reciprocal
/// correctly rounded, quotient faithful) correctly rounded, wherever |x / scale| >= 2^-11; below, remainders may be
/// inexact, but every format rounds to zero there. The sign of a zero comes from x. An infinite scale (a row with an
/// Inf) has the reciprocal 0, and x * 0 is what x / Inf is.
SDM_HD float quotient(float x, RowScale s) {
  const float rough = x * s.reciprocal;
  const float faithful = fma_rn(fma_rn(-rough, s.scale, x), s.reciprocal, rough);
  const float exact = fma_rn(fma_rn(-faithful, s.scale, x), s.reciprocal, faithful);
  const float magnitude = s.reciprocal == 0.0f ? rough : exact;
  return float_of((bits_of(magnitude) & 0x7fffffffu) | (bits_of(x) & 0x80000000u));
}

/// 1 / scale = high + low to a relative 2^-45, 0 <= low <= 2^-23 * high. Only where quick_scale holds.
struct Reciprocal {
  float high, low;
};
SDM_HD Reciprocal make_reciprocal(float scale) {
#if defined(__CUDA_ARCH__)
  float high = __frcp_rn(scale);
#else
  float high = 1.0f / scale;
#endif
  if (fma_rn(-scale, high, 1.0f) < 0.0f) high = float_of(bits_of(high) - 1u);  // towards zero: low keeps x's sign
  return {high, fma_rn(-scale, high, 1.0f) * high};                            // the remainder is exact
}

/// Whether quick_quotient may stand in for the division by `scale`: nothing under- or overflows, and the scale's
/// significand S (24 bits) is a multiple of 2^20 or at least 64 away from one.
///
/// Why that is enough, for finite x with |x| at most the row's largest: a code depends only on which side of the
/// format's midpoints the quotient lies, or whether it is one. Midpoints b (e4m3: halfway between codes; int4: halves)
/// have 5 significant bits. The quick quotient is x/scale off by a relative 2^-45, then rounded once; so it is on the
/// other side of b than the rounded x/scale, or the only one equal to b, only if x/scale lies within 2^-45 of
/// b -+ half a unit in the last place, whose significand is M = b'*2^20 -+ 1 (25 bits, 16 <= b' < 32; below a power of
/// two 16*2^21 - 1). With x's significand X that means |X*2^t - M*S| <= 32, t >= 24, hence b'*2^20*S -+ S is within 32
/// of a multiple of 2^24, hence S within 32 of a multiple of 2^20. If it is one, S = c*2^20 with 8 <= c < 16, the
/// difference is a multiple of 2^20 and would have to be 0, but 16 does not divide b'*c*2^20 -+ c. (16*2^21 - 1: S
/// would be within 32 of a multiple of 2^25, and 2^23 <= S < 2^24.)
SDM_HD bool quick_scale(float scale) {
  const std::uint32_t bits = bits_of(scale), past = bits & 0xfffffu;
  return bits - 0x2b000000u < 0x32000000u && (past == 0u || past - 64u <= 0xfffffu - 127u);  // 2^-41 <= scale < 2^59
}
/// Codes of x / scale where quick_scale holds and x is finite; its sign, of zeros too, is x's.
SDM_HD float quick_quotient(float x, Reciprocal r) { return fma_rn(x, r.high, x * r.low); }

/// Low four bits of to_int4(q) for |q| < 7.5 or NaN: adding 1.5*2^23 rounds to nearest even in the low mantissa bits.
SDM_HD std::uint32_t int4_bits(float q) { return q == q ? bits_of(q + 12582912.0f) & 0xfu : 0u; }

}  // namespace sdm::write
