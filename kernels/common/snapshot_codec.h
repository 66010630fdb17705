#pragma once
// Encoding and decoding of one snapshot row on the host (spec 2.5).
#include <cstring>

#include "kernels/common/host.h"

namespace sdm::host {

inline float row_amax(const float* x, int columns) {
  float amax = 0.0f;
  for (int d = 0; d < columns; ++d) amax = max_of(amax, abs_of(x[d]));
  return amax;
}

/// `wide`: the bank row as floats; T: the bank's element.
template <typename T>
void encode_row(const Snapshot& snapshot, std::int64_t row, const T* bank_row, const float* wide, int columns) {
  auto* out = static_cast<std::uint8_t*>(snapshot.rows) +
              row * snapshot_row_bytes(snapshot.format, columns, std::is_same_v<T, bf16_t> ? DType::bf16 : DType::f32);
  switch (snapshot.format) {
    case SnapshotFormat::bf16: narrow_row(wide, columns, reinterpret_cast<bf16_t*>(out)); return;
    case SnapshotFormat::fp8: {
      const float scale = row_scale(row_amax(wide, columns), kFp8Limit);
      snapshot.scale[row] = scale;
      for (int d = 0; d < columns; ++d) out[d] = to_e4m3(wide[d] / scale);
      return;
    }
    case SnapshotFormat::int4: {
      const float scale = row_scale(row_amax(wide, columns), kInt4Limit);
      snapshot.scale[row] = scale;
      for (int d = 0; d < columns; d += 2)
        out[d / 2] = pack_int4(to_int4(wide[d] / scale), d + 1 < columns ? to_int4(wide[d + 1] / scale) : 0);
      return;
    }
    default: std::memcpy(out, bank_row, sizeof(T) * static_cast<std::size_t>(columns)); return;
  }
}

/// The row that undo uses and restores: payload*scale, rounded to the bank's element T.
template <typename T>
void decode_row(const Snapshot& snapshot, std::int64_t row, int columns, T* out) {
  const auto* in =
      static_cast<const std::uint8_t*>(snapshot.rows) +
      row * snapshot_row_bytes(snapshot.format, columns, std::is_same_v<T, bf16_t> ? DType::bf16 : DType::f32);
  switch (snapshot.format) {
    case SnapshotFormat::bf16:
      for (int d = 0; d < columns; ++d) out[d] = store_element<T>(from_bf16(reinterpret_cast<const bf16_t*>(in)[d]));
      return;
    case SnapshotFormat::fp8:
      for (int d = 0; d < columns; ++d) out[d] = store_element<T>(from_e4m3(in[d]) * snapshot.scale[row]);
      return;
    case SnapshotFormat::int4:
      for (int d = 0; d < columns; ++d)
        out[d] = store_element<T>(static_cast<float>(d % 2 == 0 ? int4_even(in[d / 2]) : int4_odd(in[d / 2])) *
                                  snapshot.scale[row]);
      return;
    default: std::memcpy(out, in, sizeof(T) * static_cast<std::size_t>(columns)); return;
  }
}

}  // namespace sdm::host
