#include <algorithm>
#include <cmath>

#include "oracle/error_walk.h"
#include "oracle/rounding.h"
#include "oracle/stream.h"

namespace sdm::oracle {

namespace {

void save_rows(const std::vector<std::int32_t>& rows, const StreamState& s, std::vector<double>& out) {
  out.resize(rows.size() * s.columns);
  for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(s.bank_row(rows[i]), s.columns, out.data() + i * s.columns);
}

/// Spec 1.1, one token.
void forward_token(const StreamMap& map, int t, StreamState& s) {
  const int columns = s.columns;
  double* retrieved = s.retrieved.data() + std::int64_t{t} * columns;
  double* delta = s.delta.data() + std::int64_t{t} * columns;
  double* reading = s.reading.data() + std::int64_t{t} * columns;
  const float* v = map.v(t, s.first_column);
  const double beta = map.beta(t);
  for (int n = 0; n < map.w.writes; ++n) {
    double* row = s.bank_row(map.k_row[std::int64_t{t} * map.w.writes + n]);
    const double decay = std::exp(map.g(t, n)), k = map.k(t, n);
    for (int c = 0; c < columns; ++c) {
      row[c] *= decay;
      retrieved[c] += k * row[c];
    }
  }
  for (int c = 0; c < columns; ++c) delta[c] = beta * (v[c] - retrieved[c]);
  for (int n = 0; n < map.w.writes; ++n) {
    double* row = s.bank_row(map.k_row[std::int64_t{t} * map.w.writes + n]);
    const double k = map.k(t, n);
    for (int c = 0; c < columns; ++c) row[c] += k * delta[c];
  }
  for (int m = 0; m < map.w.reads; ++m) {
    const double* row = s.bank_row(map.q_row[std::int64_t{t} * map.w.reads + m]);
    const double q = map.q(t, m);
    for (int c = 0; c < columns; ++c) reading[c] += q * row[c];
  }
}

/// What storing the gather's weights in bf16 adds to `retrieved` and `reading` of a chunk. A row's share of them that
/// was there at the chunk's begin is weighted by strength*decay rounded to bf16; what the chunk itself wrote is not.
void add_weight_roundings(const StreamMap& map, int chunk, StreamState& s) {
  const auto& written = map.written[chunk];
  std::vector<double> log(map.rows.size(), 0.0);  // decay sums since the chunk's begin
  const auto add = [&](std::int32_t row, double strength, double* sum) {
    const double weight = strength * std::exp(log[row]);
    const double error = round_to(static_cast<float>(weight), DType::bf16) - weight;
    const auto at = std::lower_bound(written.begin(), written.end(), row);
    const bool changes = at != written.end() && *at == row;
    const double* begin = changes ? s.before[chunk].data() + (at - written.begin()) * s.columns : s.bank_row(row);
    for (int c = 0; c < s.columns; ++c) sum[c] += error * begin[c];
  };
  for (int t = map.chunk_begin(chunk); t < map.chunk_end(chunk); ++t) {
    const std::int64_t token = std::int64_t{t} * s.columns;
    for (int n = 0; n < map.w.writes; ++n) {
      const std::int32_t row = map.k_row[std::int64_t{t} * map.w.writes + n];
      log[row] += map.g(t, n);
      add(row, map.k(t, n), s.retrieved.data() + token);
    }
    for (int m = 0; m < map.w.reads; ++m)
      add(map.q_row[std::int64_t{t} * map.w.reads + m], map.q(t, m), s.reading.data() + token);
  }
}

}  // namespace

void walk_forward(const StreamMap& map, const OracleOptions& options, StreamState& s, ErrorWalk* errors) {
  const std::size_t token_size = std::size_t(map.w.tokens) * s.columns;
  s.retrieved.assign(token_size, 0.0);
  s.delta.assign(token_size, 0.0);
  s.reading.assign(token_size, 0.0);
  s.before.resize(map.w.steps());
  for (int chunk = 0; chunk < map.w.steps(); ++chunk) {
    const auto& written = map.written[chunk];
    auto& before = s.before[chunk];
    save_rows(written, s, before);
    if (map.w.weight_dtype == DType::bf16) add_weight_roundings(map, chunk, s);
    for (int t = map.chunk_begin(chunk); t < map.chunk_end(chunk); ++t) forward_token(map, t, s);
    if (errors) errors->forward_chunk(chunk, s);  // wants the rows before they are rounded
    if (options.round_bank) {
      for (std::int32_t row : written)
        for (int c = 0; c < s.columns; ++c) s.bank_row(row)[c] = round_to(s.bank_row(row)[c], map.w.bank_dtype);
    }
    if (!options.backward) before = {};
    if (options.backward && options.snapshot_round_trip) {
      for (std::size_t i = 0; i < written.size(); ++i)
        snapshot_round_trip({before.data() + i * s.columns, std::size_t(s.columns)}, map.w.snapshot, map.w.bank_dtype);
    }
  }
}

}  // namespace sdm::oracle
