#pragma once
// What the host replays share: element access, folds over rows, walks over groups, and the triangular products.
#include <algorithm>
#include <vector>

#include "base/dispatch.h"
#include "base/parallel.h"
#include "kernels/data.h"
#include "numerics/formats.h"
#include "numerics/order.h"

namespace sdm::host {

inline float value_at(AnyPtr p, std::int64_t i) {
  return p.dtype == DType::bf16 ? from_bf16(static_cast<const bf16_t*>(p.data)[i])
                                : static_cast<const float*>(p.data)[i];
}
inline void set_value(AnyPtr p, std::int64_t i, float x) {
  if (p.dtype == DType::bf16)
    static_cast<bf16_t*>(p.data)[i] = to_bf16(x);
  else
    static_cast<float*>(p.data)[i] = canonical(x);
}
inline std::int64_t index_at(AnyPtr p, std::int64_t i) {
  return p.dtype == DType::i64 ? static_cast<const std::int64_t*>(p.data)[i]
                               : static_cast<const std::int32_t*>(p.data)[i];
}

/// acc[d] = fma(scale, row[d], acc[d]): one term of a fold, all columns at once.
template <typename T>
inline void fold_row(float scale, const T* __restrict row, int columns, float* __restrict acc) {
  for (int d = 0; d < columns; ++d) acc[d] = fma_rn(scale, load_element(row[d]), acc[d]);
}

template <typename T>
inline void widen_row(const T* __restrict row, int columns, float* __restrict out) {
  for (int d = 0; d < columns; ++d) out[d] = load_element(row[d]);
}

template <typename T>
inline void narrow_row(const float* __restrict row, int columns, T* __restrict out) {
  for (int d = 0; d < columns; ++d) out[d] = store_element<T>(row[d]);
}

/// acc = fold over the members [begin, end) of a group of (scale, token_rows[token]), starting at +0.
/// `token_rows`: [C, D] of the group's chunk.
inline void fold_members(const Record* record, int begin, int end, const float* token_rows, int head_dim, float* acc) {
  std::fill(acc, acc + head_dim, 0.0f);
  for (int i = begin; i < end; ++i)
    fold_row(record[i].scale, token_rows + std::int64_t{token_of(record[i].payload)} * head_dim, head_dim, acc);
}

/// The row [chunk*n + ordinal] of the group whose FIRST is entry e of N*n; -1 where e is not a FIRST.
inline std::int64_t group_row(const GroupPlaces& place, int n, std::int64_t e) {
  const std::int64_t chunk = e / n;
  const std::int32_t position = place.position[e];
  const std::uint32_t* payload = place.payload + chunk * n;
  if (!(payload[position] & kFirst)) return -1;
  std::int64_t row = chunk * n + place.window[chunk * window_count(n) + position / 32].groups_before;
  for (int i = position / 32 * 32; i < position; ++i) row += payload[i] & kFirst ? 1 : 0;
  return row;
}

/// Calls `body(chunk, begin, end, ordinal)` for every group of the valid positions of one step's chunks, in tiles that
/// are shared among threads. `make_body()` is called once per tile and may own scratch.
template <typename MakeBody>
void for_groups(Parallel& threads, const Dims& dims, int step, int entries, const Record* record, const Window* window,
                MakeBody&& make_body) {
  constexpr int kTileWindows = 16;
  const int n = dims.chunk * entries;
  const int valid = dims.valid_tokens(step) * entries;
  const int tiles = (valid + 32 * kTileWindows - 1) / (32 * kTileWindows);
  threads.for_ranges(std::int64_t{dims.step_streams()} * tiles, 1, [&](std::int64_t first, std::int64_t last) {
    auto body = make_body();
    for (std::int64_t item = first; item < last; ++item) {
      const std::int64_t chunk = std::int64_t{step} * dims.streams + item / tiles;
      const Record* r = record + chunk * n;
      const Window* w = window + chunk * window_count(n);
      const int window_begin = static_cast<int>(item % tiles) * kTileWindows;
      const int window_end = std::min(window_begin + kTileWindows, window_count(n) - 1);
      const int stop = std::min(w[window_end].next_first, valid);
      int begin = w[window_begin].next_first;
      int ordinal = w[window_begin].groups_before;
      while (begin < stop) {
        int end = begin + 1;
        while (!(r[end - 1].payload & kLast)) ++end;
        body(chunk, begin, end, ordinal++);
        begin = end;
      }
    }
  });
}

/// Which terms a triangular product folds for output row i of a lower triangular [C, C] matrix m.
enum class Triangle { lower, transposed };  ///< lower: k = 0..i of m[i][k]; transposed: k = i..C-1 of m[k][i]

inline constexpr int kColumnBlock = 64;
inline int column_blocks(int head_dim) { return (head_dim + kColumnBlock - 1) / kColumnBlock; }

/// One column block of out[i][d] = fold over the triangle's k, ascending, of (m, x[k][d]), starting at start(i, d).
/// x and out: [C, D].
template <Triangle kTriangle, typename Start>
void triangular_block(const float* m, const float* x, int chunk, int head_dim, int block, Start&& start, float* out) {
  const int c = block * kColumnBlock;
  const int columns = std::min(kColumnBlock, head_dim - c);
  for (int i = 0; i < chunk; ++i) {
    alignas(64) float acc[kColumnBlock];
    for (int d = 0; d < columns; ++d) acc[d] = start(i, c + d);
    const int k_begin = kTriangle == Triangle::lower ? 0 : i;
    const int k_end = kTriangle == Triangle::lower ? i + 1 : chunk;
    const auto fold = [&](int width) {
      for (int k = k_begin; k < k_end; ++k) {
        const float factor =
            kTriangle == Triangle::lower ? m[std::int64_t{i} * chunk + k] : m[std::int64_t{k} * chunk + i];
        fold_row(factor, x + std::int64_t{k} * head_dim + c, width, acc);
      }
    };
    if (columns == kColumnBlock)
      fold(kColumnBlock);  // a constant width keeps the accumulators in registers
    else
      fold(columns);
    narrow_row(acc, columns, out + std::int64_t{i} * head_dim + c);
  }
}

template <Triangle kTriangle, typename Start>
void triangular_rows(const float* m, const float* x, int chunk, int head_dim, Start&& start, float* out) {
  for (int block = 0; block < column_blocks(head_dim); ++block)
    triangular_block<kTriangle>(m, x, chunk, head_dim, block, start, out);
}

inline float zero_start(int, int) { return 0.0f; }

}  // namespace sdm::host
