#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "base/dtype.h"

namespace sdm {

/// A streaming XXH3-128 digest (seed 0). `hex()` is the canonical big-endian form, the text that `xxhsum -H2` prints.
/// The digest depends on the bytes alone, never on how they are cut into updates.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;

  void update(std::span<const std::byte> bytes);

  /// Floats as stored, little-endian, but every NaN as 0x7fffffff (f32), 0x7fff (bf16, f16): which NaN an operation
  /// gives is not the same on host and device. Signed zeros and subnormals keep their bits. Any alignment;
  /// bytes.size() must be a multiple of the element size. Other dtypes are taken as bytes.
  void update_values(DType dtype, std::span<const std::byte> bytes);

  /// 32 lower-case hex digits of everything so far; more may follow.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string digest_bytes(std::span<const std::byte> bytes);
std::string digest_values(DType dtype, std::span<const std::byte> bytes);
inline std::string digest_f32(std::span<const float> values) {
  return digest_values(DType::f32, std::as_bytes(values));
}
inline std::string digest_bf16(std::span<const bf16_t> values) {
  return digest_values(DType::bf16, std::as_bytes(values));
}

}  // namespace sdm
