#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "pipeline/tensor.h"

namespace sdm {

/// One allocation that holds a case's tensors, each followed by guard bytes. Layout depends on the tensors alone, so
/// the size is known before anything is allocated.
class Arena {
 public:
  static constexpr std::size_t kAlign = 256, kGuardBytes = 256;
  static constexpr std::uint8_t kGuardByte = 0xA5;
  static constexpr std::uint8_t kPoisonByte = 0xFF;  ///< NaN as f32 and bf16, an impossible payload, index -1

  /// Bytes that `tensors` take.
  static std::uint64_t bytes_for(const std::vector<Tensor*>& tensors);

  /// Allocates and points every tensor into the allocation. Contents are undefined until filled.
  Arena(Backend& backend, const std::vector<Tensor*>& tensors);
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  void write_guards();
  /// The name of the first tensor whose guard bytes changed, with the offset; empty: all intact.
  std::string first_broken_guard() const;

 private:
  Backend& backend_;
  std::vector<const Tensor*> tensors_;
  void* memory_ = nullptr;
  std::uint64_t bytes_ = 0;
};

}  // namespace sdm
