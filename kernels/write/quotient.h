#pragma once
// x / scale for the quantized snapshot formats, without a division per element: the bits that the formats keep are
// those of the IEEE quotient (tests/unit/write_walk_test.cpp).
#include "numerics/formats.h"

namespace sdm::write {

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

/// Low four bits of to_int4(q) for |q| < 7.5 or NaN: adding 1.5*2^23 rounds to nearest even in the low mantissa bits.
SDM_HD std::uint32_t int4_bits(float q) { return q == q ? bits_of(q + 12582912.0f) & 0xfu : 0u; }

}  // namespace sdm::write
