#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace sdm {

enum class DType : std::uint8_t { f32, bf16, f16, i32, u32, i64, u8 };

constexpr std::size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
    case DType::u32: return 4;
    case DType::bf16:
    case DType::f16: return 2;
    case DType::i64: return 8;
    case DType::u8: return 1;
  }
  return 0;
}

constexpr std::string_view name_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "f32";
    case DType::bf16: return "bf16";
    case DType::f16: return "f16";
    case DType::i32: return "i32";
    case DType::u32: return "u32";
    case DType::i64: return "i64";
    case DType::u8: return "u8";
  }
  return "?";
}

/// A 16-bit brain float as stored: the upper half of a binary32. Arithmetic is done in float (numerics/formats.h).
struct bf16_t {
  std::uint16_t bits;
  friend bool operator==(const bf16_t&, const bf16_t&) = default;
};
static_assert(sizeof(bf16_t) == 2);

}  // namespace sdm
