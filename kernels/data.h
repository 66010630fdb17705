#pragma once
// The data that stages hand to each other (spec 2.2 .. 2.5). Pointers are host pointers for the replay and device
// pointers for kernels. N = steps*streams chunks, time-major: chunk = step*streams + stream. All arrays row-major.
#include <cstdint>

#include "base/dtype.h"
#include "numerics/fp.h"
#include "workload/sparse.h"

namespace sdm {

/// Sizes of a pass. Extents are 32-bit, offsets 64-bit.
struct Dims {
  std::int32_t streams = 0;   ///< P
  std::int32_t steps = 0;     ///< chunks per stream
  std::int32_t tokens = 0;    ///< per stream; the last chunk holds tokens - (steps-1)*chunk valid ones
  std::int32_t chunk = 0;     ///< C
  std::int32_t writes = 0;    ///< W
  std::int32_t reads = 0;     ///< R
  std::int32_t head_dim = 0;  ///< D
  std::int64_t slots = 0;     ///< rows per stream
  std::int32_t branch = 0;    ///< streams that a step stage takes, from the first that its pointers show; 0: all P

  SDM_HD std::int64_t chunks() const { return static_cast<std::int64_t>(steps) * streams; }
  SDM_HD int step_streams() const { return branch > 0 ? branch : streams; }
  SDM_HD std::int64_t rows() const { return streams * slots; }
  SDM_HD int valid_tokens(int step) const { return tokens - step * chunk < chunk ? tokens - step * chunk : chunk; }
  SDM_HD int valid_tokens_of_chunk(std::int64_t c) const { return valid_tokens(static_cast<int>(c / streams)); }
  SDM_HD int write_positions() const { return chunk * writes; }  ///< n of the write side
  SDM_HD int read_positions() const { return chunk * reads; }    ///< n of the read side
};

/// A pointer with its element type.
struct AnyPtr {
  void* data = nullptr;
  DType dtype = DType::f32;
};

// Payload bits (spec 2.3).
inline constexpr std::uint32_t kFirst = 1u << 31;
inline constexpr std::uint32_t kLast = 1u << 30;
inline constexpr std::uint32_t kInvalid = 1u << 17;
inline constexpr std::uint32_t kMaxDistance = 4095;
SDM_HD int token_of(std::uint32_t payload) { return static_cast<int>((payload >> 9) & 0xffu); }
SDM_HD int entry_of(std::uint32_t payload) { return static_cast<int>(payload & 0xffu); }
SDM_HD int distance_of(std::uint32_t payload) { return static_cast<int>((payload >> 18) & kMaxDistance); }
SDM_HD std::uint32_t make_payload(bool first, bool last, int distance, bool invalid, int token, int entry) {
  const std::uint32_t saturated =
      distance < static_cast<int>(kMaxDistance) ? static_cast<std::uint32_t>(distance) : kMaxDistance;
  return (first ? kFirst : 0u) | (last ? kLast : 0u) | (saturated << 18) | (invalid ? kInvalid : 0u) |
         (static_cast<std::uint32_t>(token) << 9) | static_cast<std::uint32_t>(entry);
}

/// 16 bytes per sorted position (spec 2.4). Padding: slot 0, scale 0, c 1.
struct alignas(16) Record {
  std::uint32_t payload;
  std::int32_t slot;  ///< absolute row
  float scale;
  float c;
};
static_assert(sizeof(Record) == 16);

/// Per 32 sorted positions: what a warp needs to find its groups. Tile bounds and ordinals of any tile length that is a
/// multiple of 32 follow from it, so the data does not depend on launch geometry.
struct Window {
  std::int32_t next_first;     ///< smallest FIRST position >= 32*w, n where there is none
  std::int32_t groups_before;  ///< valid FIRSTs at positions < 32*w
};
SDM_HD int window_count(int positions) { return (positions + 31) / 32 + 1; }

/// The sorted form of one side (writes or reads) of every chunk; n = C*W or C*R.
struct Groups {
  std::uint32_t* payload = nullptr;  ///< [N, n]
  std::int32_t* slot = nullptr;      ///< [N, n] absolute row of the sorted position; padding 0
  std::int32_t* position = nullptr;  ///< [N, n] entry (token*W + entry) -> sorted position
  std::int32_t* match = nullptr;     ///< [N, n] sorted position of the FIRST of the same slot on the other side, or -1
  Window* window = nullptr;          ///< [N, window_count(n)]
};

/// Where the entries of one side lie in group order, by which rows are found that a stage keeps one a group.
struct GroupPlaces {
  const std::int32_t* position = nullptr;  ///< [N, n]
  const std::uint32_t* payload = nullptr;  ///< [N, n]
  const Window* window = nullptr;          ///< [N, window_count(n)]
};

/// Snapshot rows (spec 2.5). `dense` formats: row chunk*n + ordinal, n = C*W; per_entry: row chunk*n + token*W + entry.
/// Variants ask the format, never the pointer: a plan is made before anything is allocated.
/// Rows that no group owns are never written and never read; the buffer starts zeroed.
struct Snapshot {
  SnapshotFormat format = SnapshotFormat::none;
  void* rows = nullptr;    ///< [N*n, row_bytes]
  float* scale = nullptr;  ///< [N*n], fp8 and int4 only
};

SDM_HD std::int64_t snapshot_row_bytes(SnapshotFormat format, int head_dim, DType bank) {
  switch (format) {
    case SnapshotFormat::bf16: return 2 * static_cast<std::int64_t>(head_dim);
    case SnapshotFormat::fp8: return head_dim;
    case SnapshotFormat::int4: return (head_dim + 1) / 2;
    case SnapshotFormat::none: return 0;
    default: return (bank == DType::bf16 ? 2 : 4) * static_cast<std::int64_t>(head_dim);
  }
}

}  // namespace sdm
