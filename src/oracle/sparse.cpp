#include "oracle/sparse.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "oracle/error_walk.h"
#include "oracle/stream.h"

namespace sdm {

namespace {

using oracle::ErrorWalk;
using oracle::StreamDots;
using oracle::StreamMap;
using oracle::StreamState;

/// Columns are independent but for sums over them, so a stream is walked a block at a time to bound its memory.
/// A quantized snapshot needs its whole row (one scale).
constexpr int kColumnBlock = 64;

struct Banks {
  std::span<const float> bank, d_final;
};

float sigma_of(double variance) { return static_cast<float>(std::sqrt(std::max(0.0, variance))); }

void allocate(OracleOutput& out, std::int64_t count, const OracleOptions& options) {
  out.value.assign(std::size_t(count), 0.0);
  if (options.bounds) out.sigma.assign(std::size_t(count), 0.0f);
}

OracleResult allocate_result(const SparseWorkload& w, const Banks& banks, const OracleOptions& options) {
  OracleResult r;
  const std::int64_t tokens = w.chunks() * w.chunk;
  allocate(r.reading, tokens * w.head_dim, options);
  allocate(r.final_bank, w.bank_elements(), options);
  std::copy(banks.bank.begin(), banks.bank.end(), r.final_bank.value.begin());
  r.delta.assign(std::size_t(tokens * w.head_dim), 0.0);
  r.retrieved = r.delta;
  if (!options.backward) return r;
  allocate(r.d_bank, w.bank_elements(), options);
  std::copy(banks.d_final.begin(), banks.d_final.end(), r.d_bank.value.begin());
  allocate(r.d_k, tokens * w.writes, options);
  allocate(r.d_q, tokens * w.reads, options);
  allocate(r.d_v, tokens * w.head_dim, options);
  allocate(r.d_beta, tokens, options);
  allocate(r.d_g, tokens * (w.gate == Gate::token ? 1 : w.writes), options);
  return r;
}

void load_rows(const StreamMap& map, const StreamState& s, std::span<const float> from, std::vector<double>& to) {
  to.assign(map.rows.size() * s.columns, 0.0);
  if (from.empty()) return;
  for (std::size_t i = 0; i < map.rows.size(); ++i)
    std::copy_n(from.data() + std::int64_t{map.rows[i]} * map.w.head_dim + s.first_column, s.columns,
                to.data() + i * s.columns);
}

void store_rows(const StreamMap& map, const StreamState& s, const std::vector<double>& values,
                const std::vector<double>* variances, OracleOutput& out) {
  for (std::size_t i = 0; i < map.rows.size(); ++i) {
    const std::int64_t at = std::int64_t{map.rows[i]} * map.w.head_dim + s.first_column;
    std::copy_n(values.data() + i * s.columns, s.columns, out.value.data() + at);
    for (int c = 0; variances && c < s.columns; ++c) out.sigma[at + c] = sigma_of((*variances)[i * s.columns + c]);
  }
}

void store_tokens(const StreamMap& map, const StreamState& s, const std::vector<double>& from, double* to) {
  for (int t = 0; t < map.w.tokens; ++t)
    std::copy_n(from.data() + std::int64_t{t} * s.columns, s.columns,
                to + map.padded(t) * map.w.head_dim + s.first_column);
}

void store_token_sigmas(const StreamMap& map, const StreamState& s, const std::vector<double>& variances, float* to) {
  for (int t = 0; t < map.w.tokens; ++t)
    for (int c = 0; c < s.columns; ++c)
      to[map.padded(t) * map.w.head_dim + s.first_column + c] = sigma_of(variances[std::int64_t{t} * s.columns + c]);
}

void store_entries(const StreamMap& map, int width, const std::vector<double>& values,
                   const std::vector<double>& variances, OracleOutput& out) {
  for (int t = 0; t < map.w.tokens; ++t)
    for (int n = 0; n < width; ++n) {
      const std::int64_t from = std::int64_t{t} * width + n, to = map.padded(t) * width + n;
      out.value[to] = values[from];
      if (!out.sigma.empty()) out.sigma[to] = sigma_of(variances[from]);
    }
}

void run_block(const StreamMap& map, const std::vector<oracle::ChunkForm>& forms, const Banks& banks,
               const OracleOptions& options, int first_column, int columns, StreamDots& dots, OracleResult& r) {
  StreamState s;
  s.first_column = first_column;
  s.columns = columns;
  std::optional<ErrorWalk> walk;
  if (options.bounds) walk.emplace(map, forms, options, columns);
  ErrorWalk* errors = walk ? &*walk : nullptr;
  load_rows(map, s, banks.bank, s.bank);
  walk_forward(map, options, s, errors);
  store_rows(map, s, s.bank, errors ? &errors->bank : nullptr, r.final_bank);
  store_tokens(map, s, s.reading, r.reading.value.data());
  store_tokens(map, s, s.delta, r.delta.data());
  store_tokens(map, s, s.retrieved, r.retrieved.data());
  if (errors) store_token_sigmas(map, s, errors->reading, r.reading.sigma.data());
  if (!options.backward) return;
  load_rows(map, s, banks.d_final, s.grad_write);
  walk_backward(map, options, s, dots, errors);
  store_rows(map, s, s.grad_write, errors ? &errors->grad : nullptr, r.d_bank);
  store_tokens(map, s, s.d_v, r.d_v.value.data());
  if (errors) store_token_sigmas(map, s, errors->d_v, r.d_v.sigma.data());
}

void run_stream(const SparseWorkload& w, const SparseInputs& inputs, const Banks& banks, const OracleOptions& options,
                int stream, OracleResult& r) {
  const StreamMap map(w, inputs, stream);
  const auto forms = options.bounds ? oracle::make_chunk_forms(map) : std::vector<oracle::ChunkForm>{};
  const bool whole_rows = is_quantized(w.snapshot);
  const int block = whole_rows ? w.head_dim : kColumnBlock;
  StreamDots dots(w);
  for (int first = 0; first < w.head_dim; first += block)
    run_block(map, forms, banks, options, first, std::min(block, w.head_dim - first), dots, r);
  if (!options.backward) return;
  if (options.bounds) oracle::finish_dots(map, forms, dots);
  store_entries(map, w.writes, dots.d_k, dots.d_k_var, r.d_k);
  store_entries(map, w.reads, dots.d_q, dots.d_q_var, r.d_q);
  store_entries(map, 1, dots.d_beta, dots.d_beta_var, r.d_beta);
  if (w.gate == Gate::write) return store_entries(map, w.writes, dots.d_g, dots.d_g_var, r.d_g);
  std::vector<double> sums(std::size_t(w.tokens), 0.0);
  for (std::size_t i = 0; i < dots.d_g.size(); ++i) sums[i / w.writes] += dots.d_g[i];
  store_entries(map, 1, sums, dots.d_g_token_var, r.d_g);
}

}  // namespace

OracleResult run_oracle(const SparseWorkload& w, const SparseInputs& inputs, std::span<const float> bank,
                        std::span<const float> d_final_bank, const OracleOptions& options, Parallel& threads) {
  const auto elements = std::size_t(w.bank_elements());
  SDM_REQUIRE(bank.size() == elements, "the oracle got a bank of {} elements, not {}", bank.size(), elements);
  SDM_REQUIRE(d_final_bank.empty() || d_final_bank.size() == elements,
              "the oracle got a final bank gradient of {} elements, not {}", d_final_bank.size(), elements);
  const Banks banks{bank, d_final_bank};
  OracleResult result = allocate_result(w, banks, options);
  threads.for_each(
      w.streams, [&](std::int64_t stream) { run_stream(w, inputs, banks, options, static_cast<int>(stream), result); });
  return result;
}

}  // namespace sdm
