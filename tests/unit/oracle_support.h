#pragma once
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "oracle/rounding.h"
#include "oracle/sparse.h"

namespace sdm::oracle_test {

/// Inputs of a small random case, drawn here so that these tests stand on nothing but the oracle.
struct DrawnCase {
  SparseWorkload workload;
  SparseInputs inputs;
  std::vector<float> bank, d_final;
};

using Rng = std::mt19937_64;

inline double uniform(Rng& rng, double low, double high) {
  return std::uniform_real_distribution<double>(low, high)(rng);
}

inline std::vector<float> uniform_values(Rng& rng, std::int64_t count, double low, double high, DType dtype) {
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& x : out) x = static_cast<float>(oracle::round_to(uniform(rng, low, high), dtype));
  return out;
}

/// `width` distinct slots of [0, range) per valid token, as absolute rows; padding tokens hold zeros.
inline std::vector<std::int32_t> draw_slots(Rng& rng, const SparseWorkload& w, int width, std::int64_t range) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(w.chunks() * w.chunk * width), 0);
  std::vector<std::int32_t> pool(static_cast<std::size_t>(range));
  for (std::int64_t token = 0; token < w.chunks() * w.chunk; ++token) {
    const std::int64_t chunk = token / w.chunk;
    if (chunk / w.streams * w.chunk + token % w.chunk >= w.tokens) continue;
    std::iota(pool.begin(), pool.end(), 0);
    for (int n = 0; n < width; ++n) {
      std::swap(pool[std::size_t(n)], pool[std::size_t(n) + rng() % (pool.size() - std::size_t(n))]);
      out[std::size_t(token * width + n)] =
          static_cast<std::int32_t>(chunk % w.streams * w.slots) + pool[std::size_t(n)];
    }
  }
  return out;
}

inline void zero_padding(const SparseWorkload& w, std::vector<float>& x) {
  const std::int64_t tokens = w.chunks() * w.chunk, width = static_cast<std::int64_t>(x.size()) / tokens;
  for (std::int64_t token = 0; token < tokens; ++token)
    if (token / w.chunk / w.streams * w.chunk + token % w.chunk >= w.tokens)
      std::fill_n(x.begin() + token * width, width, 0.0f);
}

/// `hot`: entries fall on the first `hot` slots only (0: all slots). `positive`: strengths are not signed.
inline DrawnCase draw_case(const SparseWorkload& w, std::uint64_t seed, std::int64_t hot = 0, bool positive = false) {
  Rng rng(seed);
  DrawnCase c{w, {}, {}, {}};
  const std::int64_t tokens = w.chunks() * w.chunk, range = hot ? hot : w.slots;
  const double k_max = std::sqrt(3.0 / w.writes), q_max = std::sqrt(3.0 / w.reads);
  SparseInputs& in = c.inputs;
  in.k_idx = draw_slots(rng, w, w.writes, range);
  in.q_idx = draw_slots(rng, w, w.reads, range);
  in.k = uniform_values(rng, tokens * w.writes, positive ? 0 : -k_max, k_max, w.value_dtype);
  in.q = uniform_values(rng, tokens * w.reads, positive ? 0 : -q_max, q_max, w.value_dtype);
  in.g = uniform_values(rng, tokens * (w.gate == Gate::token ? 1 : w.writes), -0.1, 0, DType::f32);
  in.v = uniform_values(rng, tokens * w.head_dim, -1, 1, DType::f32);
  in.beta = uniform_values(rng, tokens, 0, 1, DType::f32);
  in.d_reading = uniform_values(rng, tokens * w.head_dim, -1, 1, DType::f32);
  for (auto* x : {&in.k, &in.q, &in.g, &in.v, &in.beta, &in.d_reading}) zero_padding(w, *x);
  c.bank = uniform_values(rng, w.bank_elements(), -1, 1, w.bank_dtype);
  if (w.final_bank_gradient) c.d_final = uniform_values(rng, w.bank_elements(), -1, 1, w.grad_dtype);
  return c;
}

}  // namespace sdm::oracle_test
