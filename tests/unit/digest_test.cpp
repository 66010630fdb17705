#include "base/digest.h"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace sdm {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Digest, MatchesThePublishedVectors) {
  // XXH3-128 of the empty input is fixed by the XXH3 specification; the other is what `xxhsum -H2` prints for "abc".
  EXPECT_EQ(digest_bytes({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(digest_bytes(bytes_of("abc")), "06b05ab6733a618578af5f94892f3950");
}

TEST(Digest, DoesNotDependOnTheCuts) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(fmt::format("seed {}", seed));
  std::mt19937 random(seed);
  std::vector<float> values(50'000);
  for (float& x : values) x = std::bit_cast<float>(static_cast<std::uint32_t>(random()));  // NaNs too
  const auto bytes = std::as_bytes(std::span(values));
  Digest plain, canonical;
  EXPECT_EQ(plain.hex(), digest_bytes({}));
  for (std::size_t at = 0; at < bytes.size();) {
    const std::size_t size = std::min<std::size_t>(bytes.size() - at, 4 * (random() % 9000));
    plain.update(bytes.subspan(at, size));
    canonical.update_values(DType::f32, bytes.subspan(at, size));
    at += size;
  }
  EXPECT_EQ(plain.hex(), digest_bytes(bytes));
  EXPECT_EQ(canonical.hex(), digest_f32(values));
  EXPECT_NE(plain.hex(), canonical.hex());
}

TEST(Digest, TakesEveryNanForOne) {
  const auto f32 = [](std::uint32_t bits) { return digest_f32(std::vector<float>{1, std::bit_cast<float>(bits), 2}); };
  const std::vector<std::uint32_t> canonical = {0x3f800000, 0x7fffffff, 0x40000000};
  EXPECT_EQ(f32(0x7fffffff), digest_bytes(std::as_bytes(std::span(canonical))));
  for (const std::uint32_t nan : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xffffffffu, 0xff800001u})
    EXPECT_EQ(f32(nan), f32(0x7fffffff)) << nan;
  // Infinities, zeros and subnormals are values, not NaN.
  for (const std::uint32_t value : {0x7f800000u, 0xff800000u, 0x80000000u, 0u, 1u, 0x80000001u, 0x7f7fffffu})
    EXPECT_NE(f32(value), f32(0x7fffffff)) << value;
  EXPECT_NE(f32(0), f32(0x80000000));
  EXPECT_NE(f32(0), f32(1));
}

TEST(Digest, Bf16ExhaustivelyCanonical) {
  const std::string nan = digest_bf16(std::vector<bf16_t>{{0x7fff}});
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const bf16_t value{static_cast<std::uint16_t>(bits)};
    const bool is_nan = (bits & 0x7fff) > 0x7f80;
    const std::string expected = is_nan ? nan : digest_bytes(std::as_bytes(std::span(&value, 1)));
    ASSERT_EQ(digest_bf16(std::span(&value, 1)), expected) << bits;
  }
}

TEST(Digest, TakesAnyAlignmentAndRefusesCutValues) {
  std::vector<std::byte> storage(4 * 10'001 + 1, std::byte{0xff});
  for (std::size_t i = 0; i + 100 < storage.size(); ++i) storage[i] = static_cast<std::byte>(i * 37);
  const auto odd = std::span<const std::byte>(storage).subspan(1);
  const std::vector<std::byte> aligned(odd.begin(), odd.end());
  EXPECT_EQ(digest_values(DType::f32, odd), digest_values(DType::f32, aligned));
  EXPECT_EQ(digest_values(DType::i32, odd), digest_bytes(odd));
  EXPECT_THROW(digest_values(DType::f32, odd.first(7)), InternalError);
}

}  // namespace
}  // namespace sdm
