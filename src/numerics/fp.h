#pragma once
// Arithmetic shared, unchanged, by host and device (spec 2.1). Built with -ffp-contract=off and -fmad=false: a fused
// multiply-add exists only where fma_rn is written. Nothing here calls libm or a CUDA math function with a choice of
// bits.
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define SDM_HD __host__ __device__ __forceinline__
#else
#define SDM_HD inline __attribute__((always_inline))
#endif

namespace sdm {

/// Raised whenever any output bit may change; digests are compared only within one version.
inline constexpr int kContractVersion = 1;

/// One rounding: round(a*b + c) to nearest even.
SDM_HD float fma_rn(float a, float b, float c) {
#if defined(__CUDA_ARCH__)
  return __fmaf_rn(a, b, c);
#else
  return __builtin_fmaf(a, b, c);
#endif
}

SDM_HD std::uint32_t bits_of(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
#endif
}

SDM_HD float float_of(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
#endif
}

/// The one NaN of stored results. A GPU's arithmetic always yields it; a CPU propagates payloads and signs, so the host
/// canonicalises where it stores. The device does nothing.
SDM_HD float canonical(float x) {
#if defined(__CUDA_ARCH__)
  return x;
#else
  return x == x ? x : float_of(0x7fffffffu);
#endif
}

/// e^x, at most 1 ulp off over [-104, 88] (measured over every float of the range: tests/unit/numerics_exp_test.cpp),
/// exactly 1 at 0, 0 below the range, +Inf above 88.73, NaN for NaN.
/// x = n*ln2 + r with |r| <= ln2/2; e^r = 1 + (r + r^2*q(r)), q the Taylor series of (e^r - 1 - r)/r^2, whose
/// truncation (r^8/8!) is below 0.1 ulp; 2^n is applied in two exact-or-rounded-once steps so that subnormal results
/// round once.
SDM_HD float exp_rn(float x) {
  constexpr float kRoundMagic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
  const bool below = x < -104.0f;
  const bool above = x > 89.0f;
  const float y = below ? -104.0f : (above ? 89.0f : x);
  const float t = fma_rn(y, 1.44269504088896341f, kRoundMagic);
  const float n = t - kRoundMagic;
  const std::int32_t exponent = static_cast<std::int32_t>(bits_of(t) - bits_of(kRoundMagic));
  const float high = fma_rn(n, -0.693145751953125f, y);  // ln2 in two parts: n times the first is exact
  const float r = fma_rn(n, -1.42860682030941723e-6f, high);
  const float lost = fma_rn(n, -1.42860682030941723e-6f, high - r);  // what rounding r lost
  float q = 1.98412698412698413e-4f;
  q = fma_rn(q, r, 1.38888888888888889e-3f);
  q = fma_rn(q, r, 8.33333333333333333e-3f);
  q = fma_rn(q, r, 4.16666666666666667e-2f);
  q = fma_rn(q, r, 1.66666666666666667e-1f);
  q = fma_rn(q, r, 0.5f);
  const float p = 1.0f + (r + fma_rn(r * r, q, lost));
  const std::int32_t half = exponent >> 1;
  const float scale1 = float_of(static_cast<std::uint32_t>(half + 127) << 23);
  const float scale2 = float_of(static_cast<std::uint32_t>(exponent - half + 127) << 23);
  const float result = (p * scale1) * scale2;
  return below ? 0.0f : result;
}

}  // namespace sdm
