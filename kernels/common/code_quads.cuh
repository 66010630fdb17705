#pragma once
// Four neighbouring codes of a quantized row (spec 2.5) as floats, before the row's scale. kQuick: by what takes few
// instructions; the numerics sweep holds both against the host's conversions. Device code only.
#include <cstdint>

#include "numerics/formats.h"

namespace sdm::device {

/// e4m3, the first column in the lowest byte. Of a NaN any NaN, as the product with the scale makes it the one.
template <bool kQuick>
__device__ __forceinline__ void widen_e4m3(std::uint32_t codes, float (&out)[4]) {
#if __CUDA_ARCH__ >= 890
  constexpr bool kInstruction = kQuick;
#else
  constexpr bool kInstruction = false;
#endif
  if constexpr (kInstruction) {
#pragma unroll
    for (int i = 0; i < 4; i += 2)
      asm("{\n .reg .b32 pair;\n .reg .b16 low, high;\n cvt.rn.f16x2.e4m3x2 pair, %2;\n mov.b32 {low, high}, pair;\n"
          " cvt.f32.f16 %0, low;\n cvt.f32.f16 %1, high;\n}"
          : "=f"(out[i]), "=f"(out[i + 1])
          : "h"(static_cast<std::uint16_t>(codes >> (8 * i))));
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = from_e4m3(static_cast<std::uint8_t>(codes >> (8 * i)));
  }
}

/// int4, two columns a byte as pack_int4 leaves them, in the lower half of `codes`.
template <bool kQuick>
__device__ __forceinline__ void widen_int4(std::uint32_t codes, float (&out)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (kQuick) {  // 2^23 + 8 + code, less 2^23 + 8
      const std::uint32_t nibble = codes >> (8 * (i / 2) + 4 * (1 - i % 2));
      out[i] = __uint_as_float((nibble & 0xfu) ^ 0x4b000008u) - 8388616.0f;
    } else {
      const auto byte = static_cast<std::uint8_t>(codes >> (8 * (i / 2)));
      out[i] = static_cast<float>(i % 2 == 0 ? int4_even(byte) : int4_odd(byte));
    }
  }
}

}  // namespace sdm::device
