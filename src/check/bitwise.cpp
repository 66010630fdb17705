#include "check/bitwise.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>

#include "numerics/formats.h"

namespace sdm {
namespace {

bool both_nan(std::uint32_t a, std::uint32_t b, DType dtype) {
  const std::uint32_t infinity = dtype == DType::f32 ? 0x7f800000u : 0x7f80u;
  const std::uint32_t magnitude = dtype == DType::f32 ? 0x7fffffffu : 0x7fffu;
  return (a & magnitude) > infinity && (b & magnitude) > infinity;
}

std::string describe(DType dtype, const std::byte* at) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, size_of(dtype));
  switch (dtype) {
    case DType::f32: return fmt::format("{:.9g} (0x{:08x})", float_of(static_cast<std::uint32_t>(bits)), bits);
    case DType::bf16: return fmt::format("{:.6g} (0x{:04x})", from_bf16({static_cast<std::uint16_t>(bits)}), bits);
    case DType::i32: return fmt::format("{}", static_cast<std::int32_t>(bits));
    case DType::i64: return fmt::format("{}", static_cast<std::int64_t>(bits));
    default: return fmt::format("0x{:0{}x}", bits, 2 * size_of(dtype));
  }
}

std::vector<std::int64_t> coordinate_of(std::int64_t index, std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> coordinate(shape.size());
  for (std::size_t axis = shape.size(); axis-- > 0; index /= shape[axis]) coordinate[axis] = index % shape[axis];
  return coordinate;
}

}  // namespace

std::string BitDifference::sentence() const {
  return fmt::format("{} element{} differ{}, the first at [{}]: expected {}, got {}", count, count == 1 ? "" : "s",
                     count == 1 ? "s" : "", fmt::join(coordinate, ", "), expected, actual);
}

std::optional<BitDifference> compare_bits(DType dtype, std::span<const std::int64_t> shape, const void* expected,
                                          const void* actual) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  const std::size_t size = size_of(dtype);
  if (std::memcmp(expected, actual, static_cast<std::size_t>(elements) * size) == 0) return std::nullopt;
  const auto* a = static_cast<const std::byte*>(expected);
  const auto* b = static_cast<const std::byte*>(actual);
  BitDifference difference;
  for (std::int64_t i = 0; i < elements; ++i, a += size, b += size) {
    if (std::memcmp(a, b, size) == 0) continue;
    if (dtype == DType::f32 || dtype == DType::bf16) {
      std::uint32_t x = 0, y = 0;
      std::memcpy(&x, a, size);
      std::memcpy(&y, b, size);
      if (both_nan(x, y, dtype)) continue;
    }
    if (difference.count++ == 0) {
      difference.coordinate = coordinate_of(i, shape);
      difference.expected = describe(dtype, a);
      difference.actual = describe(dtype, b);
    }
  }
  if (difference.count == 0) return std::nullopt;
  return difference;
}

}  // namespace sdm
