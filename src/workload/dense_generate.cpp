#include <cmath>
#include <span>

#include "base/parallel.h"
#include "base/rng.h"
#include "numerics/exp2.h"
#include "numerics/f16.h"
#include "workload/dense.h"

namespace sdm {
namespace {

constexpr int kC = DenseWorkload::kChunk;
constexpr float kStateSize = 0.2f;  ///< of the initial state's elements; what a long run settles at

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <typename Convert>
void fill(std::uint64_t seed, Purpose purpose, std::int64_t row, std::int64_t stream, std::span<float> out,
          Convert convert) {
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const RandomBlock block = random_block(seed, purpose, static_cast<std::uint32_t>(i / 4),
                                           static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(stream));
    for (std::size_t j = i; j < std::min(i + 4, out.size()); ++j) out[j] = convert(block.word[j - i]);
  }
}

/// Scales a vector to length 1. sqrt and division are correctly rounded by IEEE 754 and so portable.
void normalize(std::span<float> x) {
  float square = 0;
  for (const float value : x) square = fma_rn(value, value, square);
  const float length = std::sqrt(square);
  for (float& value : x) value = length > 0 ? value / length : 0.0f;
}

/// rows[i] -= sum over j < i, ascending, of lower[i][j] * rows[j]: applies (I + lower)^-1. rows: [64, width].
void solve_rows(std::span<const float> lower, std::span<float> rows, std::size_t width) {
  for (std::size_t i = 0; i < kC; ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const float factor = -lower[i * kC + j];
      for (std::size_t d = 0; d < width; ++d)
        rows[i * width + d] = fma_rn(factor, rows[j * width + d], rows[i * width + d]);
    }
}

/// The transform of one chunk (spec 4). All [64, K] or [64, V].
struct ChunkTransform {
  std::vector<float> g2, w, u, kg;

  ChunkTransform(const DenseTokens& tokens, std::size_t key_dim, std::size_t value_dim)
      : g2(tokens.decay), w(kC * key_dim), u(tokens.v), kg(kC * key_dim) {
    for (std::size_t i = key_dim; i < g2.size(); ++i) g2[i] = g2[i - key_dim] + g2[i];
    std::vector<float> inverse(key_dim * kC), lower(kC * kC);  // inverse: k*2^-g2, transposed
    for (std::size_t t = 0; t < kC; ++t)
      for (std::size_t k = 0; k < key_dim; ++k) {
        const std::size_t i = t * key_dim + k;
        w[i] = (tokens.beta[t] * tokens.k[i]) * exp2_rn(g2[i]);
        inverse[k * kC + t] = tokens.k[i] * exp2_rn(0.0f - g2[i]);
        kg[i] = tokens.k[i] * exp2_rn(g2[(kC - 1) * key_dim + k] - g2[i]);
      }
    for (std::size_t t = 0; t < kC; ++t)
      for (std::size_t k = 0; k < key_dim; ++k)
        for (std::size_t j = 0; j < t; ++j)
          lower[t * kC + j] = fma_rn(w[t * key_dim + k], inverse[k * kC + j], lower[t * kC + j]);
    for (std::size_t t = 0; t < kC; ++t)
      for (std::size_t d = 0; d < value_dim; ++d) u[t * value_dim + d] = tokens.beta[t] * u[t * value_dim + d];
    solve_rows(lower, w, key_dim);
    solve_rows(lower, u, value_dim);
  }
};

/// Writes a chunk's rows [64, width] to rows `first`, `first + heads`, .. of a [B, T, HV, width] array.
template <typename Stored, typename Convert>
void scatter(std::span<const float> rows, std::size_t width, std::int64_t first, std::int64_t heads,
             std::vector<Stored>& out, Convert convert) {
  for (std::size_t t = 0; t < kC; ++t) {
    Stored* to = out.data() + at(first + static_cast<std::int64_t>(t) * heads) * width;
    for (std::size_t d = 0; d < width; ++d) to[d] = convert(rows[t * width + d]);
  }
}

void generate_chunk(const DenseWorkload& workload, std::int64_t stream, std::int32_t chunk, DenseInputs& inputs) {
  const auto key_dim = at(workload.key_dim), value_dim = at(workload.value_dim);
  const ChunkTransform chunk_form(draw_dense_tokens(workload, stream, chunk), key_dim, value_dim);
  const std::int64_t batch = stream / workload.heads, head = stream % workload.heads;
  const std::int64_t first = (batch * workload.tokens + std::int64_t{chunk} * kC) * workload.heads + head;
  std::vector<float> d_out(kC * value_dim);
  for (std::size_t t = 0; t < kC; ++t)
    fill(workload.seed, Purpose::dense_d_out, chunk * kC + static_cast<std::int64_t>(t), stream,
         std::span(d_out).subspan(t * value_dim, value_dim), signed_unit);
  dispatch_half(workload.io_dtype, [&]<typename T>() {
    const auto io = [](float x) { return store_element<T>(x).bits; };
    scatter(chunk_form.w, key_dim, first, workload.heads, inputs.w, io);
    scatter(chunk_form.kg, key_dim, first, workload.heads, inputs.kg, io);
    scatter(chunk_form.u, value_dim, first, workload.heads, inputs.u, io);
    scatter(d_out, value_dim, first, workload.heads, inputs.d_out, io);
  });
  scatter(chunk_form.g2, key_dim, first, workload.heads, inputs.g2, [](float x) { return x; });
}

}  // namespace

DenseTokens draw_dense_tokens(const DenseWorkload& workload, std::int64_t stream, std::int32_t chunk) {
  const auto key_dim = at(workload.key_dim), value_dim = at(workload.value_dim);
  DenseTokens tokens{std::vector<float>(kC * key_dim), std::vector<float>(kC * value_dim), std::vector<float>(kC),
                     std::vector<float>(kC * key_dim)};
  for (std::size_t t = 0; t < kC; ++t) {
    const std::int64_t row = std::int64_t{chunk} * kC + static_cast<std::int64_t>(t);
    const std::span key = std::span(tokens.k).subspan(t * key_dim, key_dim);
    fill(workload.seed, Purpose::dense_key, row, stream, key, signed_unit);
    normalize(key);
    fill(workload.seed, Purpose::dense_value, row, stream, std::span(tokens.v).subspan(t * value_dim, value_dim),
         signed_unit);
    fill(workload.seed, Purpose::dense_gate, row, stream, std::span(tokens.beta).subspan(t, 1), unit);
    fill(workload.seed, Purpose::dense_decay, row, stream, std::span(tokens.decay).subspan(t * key_dim, key_dim),
         [](std::uint32_t word) { return 0.0f - kMostDecay * unit(word); });
  }
  return tokens;
}

DenseInputs generate_dense_inputs(const DenseWorkload& workload, Parallel& threads) {
  DenseInputs inputs;
  const std::int64_t rows = workload.rows();
  inputs.w.resize(at(rows * workload.key_dim));
  inputs.kg.resize(inputs.w.size());
  inputs.g2.resize(inputs.w.size());
  inputs.u.resize(at(rows * workload.value_dim));
  inputs.d_out.resize(inputs.u.size());
  threads.for_each(workload.streams() * workload.chunks(), [&](std::int64_t item) {
    generate_chunk(workload, item / workload.chunks(), static_cast<std::int32_t>(item % workload.chunks()), inputs);
  });
  if (!workload.initial_state) return inputs;
  inputs.h0.resize(at(workload.streams() * workload.key_dim * workload.value_dim));
  const std::int64_t state = std::int64_t{workload.key_dim} * workload.value_dim;
  threads.for_each(workload.streams(), [&](std::int64_t stream) {
    for (std::int64_t k = 0; k < workload.key_dim; ++k)
      fill(workload.seed, Purpose::dense_state, k, stream,
           std::span(inputs.h0).subspan(at(stream * state + k * workload.value_dim), at(workload.value_dim)),
           [](std::uint32_t word) { return kStateSize * signed_unit(word); });
  });
  return inputs;
}

}  // namespace sdm
