#include "base/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace sdm {
namespace {

static_assert(std::endian::native == std::endian::little, "digests are defined over little-endian values");

/// Bytes canonicalised at a time: small enough to stay in the first-level cache between the pass and the hash.
constexpr std::size_t kBlockBytes = 16 * 1024;

/// Replaces every NaN by the one with all mantissa bits set and no sign: branch-free, so that it vectorises.
/// `kInfinity` is the encoding of +infinity; larger magnitudes are NaN.
template <typename Bits, Bits kInfinity>
void canonicalise(Bits* bits, std::size_t count) {
  constexpr Bits kMagnitude = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  for (std::size_t i = 0; i < count; ++i)
    bits[i] = static_cast<Bits>(bits[i] & kMagnitude) > kInfinity ? kMagnitude : bits[i];
}

template <typename Bits, Bits kInfinity>
void update_canonical(XXH3_state_t& state, std::span<const std::byte> bytes) {
  alignas(64) Bits block[kBlockBytes / sizeof(Bits)];
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), kBlockBytes);
    std::memcpy(block, bytes.data(), size);
    canonicalise<Bits, kInfinity>(block, size / sizeof(Bits));
    XXH3_128bits_update(&state, block, size);
    bytes = bytes.subspan(size);
  }
}

std::string to_hex(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string hex;
  for (const unsigned char byte : canonical.digest) hex += fmt::format("{:02x}", byte);
  return hex;
}

}  // namespace

struct Digest::State {
  XXH3_state_t xxh;
};

Digest::Digest() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh); }
Digest::~Digest() = default;
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;

void Digest::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) XXH3_128bits_update(&state_->xxh, bytes.data(), bytes.size());
}

void Digest::update_values(DType dtype, std::span<const std::byte> bytes) {
  SDM_REQUIRE(bytes.size() % size_of(dtype) == 0, "{} bytes are no whole number of {} values", bytes.size(),
              name_of(dtype));
  switch (dtype) {
    case DType::f32: return update_canonical<std::uint32_t, 0x7f800000u>(state_->xxh, bytes);
    case DType::bf16: return update_canonical<std::uint16_t, 0x7f80u>(state_->xxh, bytes);
    case DType::f16: return update_canonical<std::uint16_t, 0x7c00u>(state_->xxh, bytes);
    default: return update(bytes);
  }
}

std::string Digest::hex() const { return to_hex(XXH3_128bits_digest(&state_->xxh)); }

std::string digest_bytes(std::span<const std::byte> bytes) { return to_hex(XXH3_128bits(bytes.data(), bytes.size())); }

std::string digest_values(DType dtype, std::span<const std::byte> bytes) {
  Digest digest;
  digest.update_values(dtype, bytes);
  return digest.hex();
}

}  // namespace sdm
