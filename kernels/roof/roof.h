#pragma once
// The plain row passes that the attainable bandwidth is measured with. They compute nothing but a checksum, so no
// kernel that moves the same rows can be expected to be faster.
#include <cstdint>

#include "kernels/stage.h"

namespace sdm::roof {

inline constexpr int kSeenWords = 1024;
inline constexpr std::uint32_t kFlip = 0x5A5A5A5A;  ///< what write-back xors into every 4 bytes of a row

/// One pass over `touched` distinct rows in the given order. The pass xors all it reads into `seen`: the xor of the
/// kSeenWords words changes by the xor of all 4-byte words of the rows (2-byte words where the row is not a multiple of
/// 4 bytes), as read.
struct RowPass {
  void* rows = nullptr;                 ///< [rows][row_bytes], 16-byte aligned
  const std::int32_t* order = nullptr;  ///< [touched] distinct row numbers
  std::int64_t touched = 0;
  std::int64_t row_bytes = 0;  ///< a multiple of 2
  std::uint32_t* seen = nullptr;
  bool write_back = false;  ///< write each row back, xored with kFlip
};

/// Bytes of the widest access that divides a row: 16, 8, 4 or 2.
constexpr int word_bytes(std::int64_t row_bytes) {
  int bytes = 16;
  while (row_bytes % bytes != 0 && bytes > 2) bytes /= 2;
  return bytes;
}

/// On the context's stream; CUDA builds only.
void launch(const RowPass& pass, const LaunchContext& context);
/// The same pass on the host.
void replay(const RowPass& pass, Parallel& threads);

}  // namespace sdm::roof
