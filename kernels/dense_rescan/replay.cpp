#include <algorithm>
#include <vector>

#include "base/parallel.h"
#include "kernels/dense_rescan/dense_rescan.h"
#include "numerics/exp2.h"
#include "numerics/f16.h"

namespace sdm::dense_rescan {
namespace {

/// acc[0..width) = fma(factor, row[i], acc[i]).
template <int kWidth>
inline void fold(float factor, const float* __restrict row, float* __restrict acc) {
  for (int i = 0; i < kWidth; ++i) acc[i] = fma_rn(factor, row[i], acc[i]);
}

/// One V tile of one stream, walked over all chunks.
template <typename T>
class TileWalk {
 public:
  TileWalk(const Params& p, std::int64_t stream, int tile)
      : p_(p),
        batch_(stream / p.heads),
        head_(stream % p.heads),
        column_(tile * kTile),
        h_(static_cast<std::size_t>(p.key_dim) * kTile),
        io_h_(h_.size()),
        v_(std::size_t{kChunk} * kTile) {}

  void run() {
    load_state();
    for (int chunk = 0; chunk < p_.chunks; ++chunk) {
      checkpoint(chunk);
      new_values(chunk);
      update(chunk);
    }
    for (int k = 0; k < p_.key_dim; ++k)
      for (int v = 0; v < kTile; ++v) p_.final_state[state_at(k) + v] = canonical(row(h_, k)[v]);
  }

 private:
  static float* row(std::vector<float>& matrix, int i) { return matrix.data() + std::ptrdiff_t{i} * kTile; }
  std::int64_t state_at(int k) const { return ((batch_ * p_.heads + head_) * p_.key_dim + k) * p_.value_dim + column_; }
  std::int64_t token_row(int chunk, int t) const {
    return ((batch_ * p_.chunks + chunk) * kChunk + t) * p_.heads + head_;
  }

  void load_state() {
    for (int k = 0; k < p_.key_dim; ++k)
      for (int v = 0; v < kTile; ++v) row(h_, k)[v] = p_.h0 ? p_.h0[state_at(k) + v] : 0.0f;
  }

  void checkpoint(int chunk) {
    const std::int64_t first = ((batch_ * p_.chunks + chunk) * p_.heads + head_) * p_.key_dim;
    for (int k = 0; k < p_.key_dim; ++k)
      for (int v = 0; v < kTile; ++v) {
        const T stored = store_element<T>(row(h_, k)[v]);
        static_cast<T*>(p_.checkpoints)[(first + k) * p_.value_dim + column_ + v] = stored;
        row(io_h_, k)[v] = load_element(stored);
      }
  }

  void new_values(int chunk) {
    for (int t = 0; t < kChunk; ++t) {
      const T* w = static_cast<const T*>(p_.w) + token_row(chunk, t) * p_.key_dim;
      alignas(64) float acc[kTile] = {};
      for (int k = 0; k < p_.key_dim; ++k) fold<kTile>(load_element(w[k]), row(io_h_, k), acc);
      const std::int64_t at = token_row(chunk, t) * p_.value_dim + column_;
      for (int v = 0; v < kTile; ++v) {
        const T stored = store_element<T>(load_element(static_cast<const T*>(p_.u)[at + v]) - acc[v]);
        static_cast<T*>(p_.v_new)[at + v] = stored;
        row(v_, t)[v] = load_element(stored);
      }
    }
  }

  void update(int chunk) {
    const float* gd = p_.g2 + token_row(chunk, kChunk - 1) * p_.key_dim;
    for (int k = 0; k < p_.key_dim; ++k) {
      const float decay = exp2_rn(gd[k]);
      for (int v = 0; v < kTile; ++v) row(h_, k)[v] = decay * row(h_, k)[v];
    }
    for (int t = 0; t < kChunk; ++t) {
      const T* kg = static_cast<const T*>(p_.kg) + token_row(chunk, t) * p_.key_dim;
      for (int k = 0; k < p_.key_dim; ++k) fold<kTile>(load_element(kg[k]), row(v_, t), row(h_, k));
    }
  }

  const Params& p_;
  std::int64_t batch_, head_;
  int column_;
  std::vector<float> h_, io_h_, v_;  ///< [K, 64], [K, 64], [64, 64]
};

/// dq of one chunk of one stream from its checkpoint.
template <typename T>
void query_gradient(const Params& p, std::int64_t chunk_row) {
  const std::int64_t head = chunk_row % p.heads, chunk = chunk_row / p.heads;  // chunk: over all sequences
  const int key_dim = p.key_dim;
  std::vector<float> transposed(static_cast<std::size_t>(p.value_dim) * key_dim);  // [V, K]
  const T* state = static_cast<const T*>(p.checkpoints) + chunk_row * key_dim * p.value_dim;
  for (int k = 0; k < key_dim; ++k)
    for (int v = 0; v < p.value_dim; ++v)
      transposed[static_cast<std::size_t>(v) * key_dim + k] = load_element(state[std::int64_t{k} * p.value_dim + v]);
  for (int t = 0; t < kChunk; ++t) {
    const std::int64_t row = (chunk * kChunk + t) * p.heads + head;
    const T* d_out = static_cast<const T*>(p.d_out) + row * p.value_dim;
    alignas(64) float total[128], partial[128];
    for (int v = 0; v < p.value_dim; ++v) {
      if (v % kTile == 0) std::fill_n(partial, key_dim, 0.0f);
      const float* column = transposed.data() + std::ptrdiff_t{v} * key_dim;
      const float factor = load_element(d_out[v]);
      for (int k = 0; k < key_dim; ++k) partial[k] = fma_rn(factor, column[k], partial[k]);
      if (v % kTile != kTile - 1) continue;
      for (int k = 0; k < key_dim; ++k) total[k] = v < kTile ? partial[k] : total[k] + partial[k];
    }
    // value_dim is a multiple of kTile, so `total` was set. NOLINTNEXTLINE(clang-analyzer-core.CallAndMessage)
    for (int k = 0; k < key_dim; ++k) p.dq[row * key_dim + k] = canonical(total[k]);
  }
}

}  // namespace

void replay(const Params& p, Parallel& threads) {
  dispatch_half(p.io, [&]<typename T>() {
    const int tiles = p.value_dim / kTile;
    threads.for_each(p.streams() * tiles,
                     [&](std::int64_t item) { TileWalk<T>(p, item / tiles, static_cast<int>(item % tiles)).run(); });
    if (p.dq_mode == DqMode::off) return;
    threads.for_each(p.streams() * p.chunks, [&](std::int64_t chunk_row) { query_gradient<T>(p, chunk_row); });
  });
}

}  // namespace sdm::dense_rescan
