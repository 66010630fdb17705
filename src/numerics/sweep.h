#pragma once
// The functions whose bits host and device must share, as functions of one 32-bit word, so that all 2^32 inputs can be
// tried on both sides and compared by sums (docs/determinism.md). Host and device include this unchanged.
#include "numerics/exp2.h"
#include "numerics/f16.h"
#include "numerics/formats.h"
#include "numerics/fp.h"
#include "numerics/order.h"

namespace sdm::sweep {

enum class Function : std::uint8_t {
  exp,
  exp2,
  to_bf16,
  to_f16,
  to_e4m3,
  to_int4,
  from_bf16,
  from_f16,
  from_e4m3,
  four_e4m3,  ///< the four codes of a word at once, as a GPU's undo takes them
  four_int4,  ///< the four codes in a word's lower half
  scale_fp8,
  scale_int4,
  divide,    ///< a/b of the word and a word that follows from it
  fused,     ///< a*b + c of three such words
  near_dot,  ///< a dot over 128 columns, lanes added at distance 1, 2, 4, 8, 16 (undo)
  far_dot    ///< the same at distance 16, 8, 4, 2, 1 (read_grad)
};
inline constexpr int kFunctions = 17;

constexpr const char* name_of(Function f) {
  constexpr const char* names[] = {"exp",        "exp2",     "to_bf16",   "to_f16",    "to_e4m3",   "to_int4",
                                   "from_bf16",  "from_f16", "from_e4m3", "four_e4m3", "four_int4", "scale_fp8",
                                   "scale_int4", "divide",   "fused",     "near_dot",  "far_dot"};
  return names[static_cast<int>(f)];
}

/// Dots take a whole warp; one stands for 32 inputs.
constexpr bool is_dot(Function f) { return f >= Function::near_dot; }

/// Inputs that share one sum.
inline constexpr std::uint32_t kBlock = 1u << 20;

/// A bijection of words that scatters neighbours.
SDM_HD std::uint32_t scattered(std::uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

/// Any two results of one input give different terms, and terms are added without order: one wrong result always shows
/// in the sum, several cancel with a chance of 2^-64.
SDM_HD std::uint64_t term(std::uint32_t input, std::uint32_t output) {
  const std::uint64_t both = (static_cast<std::uint64_t>(scattered(input)) << 32) | output;
  return both * 0x9e3779b97f4a7c15ull;
}

/// Digests know one NaN, and so does this: which NaN an operation gives is not the same on host and device.
SDM_HD std::uint32_t canonical_bits(float x) {
  const std::uint32_t bits = bits_of(x);
  return (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : bits;
}

/// One word of four floats; each of them alone always shows in it.
SDM_HD std::uint32_t joined_bits(const float (&x)[4]) {
  std::uint32_t all = 0;
  for (float element : x) all = scattered(all ^ canonical_bits(element));
  return all;
}

/// The output of every function but the dots.
template <Function f>
SDM_HD std::uint32_t output_of(std::uint32_t word) {
  const float x = float_of(word);
  if constexpr (f == Function::exp) {
    return canonical_bits(exp_rn(x));
  } else if constexpr (f == Function::exp2) {
    return canonical_bits(exp2_rn(x));
  } else if constexpr (f == Function::to_bf16) {
    return to_bf16(x).bits;
  } else if constexpr (f == Function::to_f16) {
    return to_f16(x).bits;
  } else if constexpr (f == Function::to_e4m3) {
    return to_e4m3(x);
  } else if constexpr (f == Function::to_int4) {
    return static_cast<std::uint32_t>(to_int4(x));
  } else if constexpr (f == Function::from_bf16) {
    return canonical_bits(from_bf16({static_cast<std::uint16_t>(word)}));
  } else if constexpr (f == Function::from_f16) {
    return canonical_bits(from_f16({static_cast<std::uint16_t>(word)}));
  } else if constexpr (f == Function::from_e4m3) {
    return canonical_bits(from_e4m3(static_cast<std::uint8_t>(word)));
  } else if constexpr (f == Function::four_e4m3) {
    const float four[4] = {from_e4m3(static_cast<std::uint8_t>(word)), from_e4m3(static_cast<std::uint8_t>(word >> 8)),
                           from_e4m3(static_cast<std::uint8_t>(word >> 16)),
                           from_e4m3(static_cast<std::uint8_t>(word >> 24))};
    return joined_bits(four);
  } else if constexpr (f == Function::four_int4) {
    const auto first = static_cast<std::uint8_t>(word), second = static_cast<std::uint8_t>(word >> 8);
    const float four[4] = {static_cast<float>(int4_even(first)), static_cast<float>(int4_odd(first)),
                           static_cast<float>(int4_even(second)), static_cast<float>(int4_odd(second))};
    return joined_bits(four);
  } else if constexpr (f == Function::scale_fp8) {
    return canonical_bits(row_scale(max_of(0.0f, abs_of(x)), kFp8Limit));
  } else if constexpr (f == Function::scale_int4) {
    return canonical_bits(row_scale(max_of(0.0f, abs_of(x)), kInt4Limit));
  } else if constexpr (f == Function::divide) {
    return canonical_bits(div_rn(x, float_of(scattered(word))));
  } else {
    const std::uint32_t second = scattered(word), third = scattered(second);
    return canonical_bits(fma_rn(x, float_of(second), float_of(third)));
  }
}

/// Column 4*lane + i of the two rows of dot `number`. One dot in 64 takes any bits, the others magnitudes from 2^-8 to
/// 2^8.
SDM_HD float dot_element(std::uint32_t number, int lane, int i, bool second_row) {
  const std::uint32_t place =
      number * 256u + static_cast<std::uint32_t>(lane) * 8u + static_cast<std::uint32_t>(i) + (second_row ? 4u : 0u);
  const std::uint32_t word = scattered(place ^ 0x5bd1e995u);
  if (number % 64 == 0) return float_of(word);
  const std::uint32_t exponent = 119u + ((word >> 23) & 15u);
  return float_of((word & 0x807fffffu) | (exponent << 23));
}

/// What a lane holds before the tree (spec 2.6).
SDM_HD float lane_partial(std::uint32_t number, int lane) {
  float sum = dot_element(number, lane, 0, false) * dot_element(number, lane, 0, true);
  for (int i = 1; i < 4; ++i)
    sum = fma_rn(dot_element(number, lane, i, false), dot_element(number, lane, i, true), sum);
  return sum;
}

}  // namespace sdm::sweep
