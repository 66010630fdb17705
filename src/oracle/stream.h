#pragma once
#include <cstdint>
#include <vector>

#include "oracle/sparse.h"
#include "workload/sparse.h"

namespace sdm::oracle {

/// One stream's view of the workload: only the rows it touches get local numbers, so state is as small as its traffic.
struct StreamMap {
  StreamMap(const SparseWorkload& workload, const SparseInputs& inputs, int stream);

  const SparseWorkload& w;
  const SparseInputs& in;
  int stream;
  int gate_width;                                  ///< 1 or W
  std::vector<std::int32_t> rows;                  ///< local row -> absolute bank row
  std::vector<std::int32_t> k_row, q_row;          ///< [T, W], [T, R] local rows
  std::vector<std::vector<std::int32_t>> written;  ///< per chunk: its distinct written local rows, ascending

  /// Index of token t among the padded [N, C] tokens.
  std::int64_t padded(int t) const { return (std::int64_t{t / w.chunk} * w.streams + stream) * w.chunk + t % w.chunk; }
  int chunk_begin(int chunk) const { return chunk * w.chunk; }
  int chunk_end(int chunk) const { return std::min(w.tokens, (chunk + 1) * w.chunk); }
  double k(int t, int n) const { return in.k[padded(t) * w.writes + n]; }
  double q(int t, int m) const { return in.q[padded(t) * w.reads + m]; }
  double g(int t, int n) const { return in.g[padded(t) * gate_width + (gate_width == 1 ? 0 : n)]; }
  double beta(int t) const { return in.beta[padded(t)]; }
  const float* v(int t, int column) const { return in.v.data() + padded(t) * w.head_dim + column; }
  const float* d_reading(int t, int column) const { return in.d_reading.data() + padded(t) * w.head_dim + column; }
};

/// Sums over columns, per entry or token of one stream, with the variance of their errors.
struct StreamDots {
  explicit StreamDots(const SparseWorkload& w);
  std::vector<double> d_k, d_q, d_g, d_beta;  ///< [T, W], [T, R], [T, W], [T]
  std::vector<double> d_k_var, d_q_var, d_g_var, d_beta_var;
  std::vector<double> d_g_token_var;  ///< [T] of the scalar gate's sum over entries
};

/// Everything the recurrence holds for one stream and a block of columns. Rows are local, all arrays row-major.
struct StreamState {
  int first_column = 0, columns = 0;
  std::vector<double> bank;                            ///< [rows, columns]
  std::vector<double> grad_write, grad_read;           ///< [rows, columns], see backward.cpp
  std::vector<double> delta, retrieved, reading, d_v;  ///< [T, columns]
  std::vector<std::vector<double>> before;  ///< per chunk [written, columns]: pre-write rows, round-tripped once saved
  // Logs of the chunk in reverse, tokens relative to its begin.
  std::vector<double> old_rows;   ///< [n, W, columns] rows before the token's decay
  std::vector<double> used_grad;  ///< [n, W, columns] gradient rows as the token's write sees them
  std::vector<double> d_delta;    ///< [n, columns]
  std::vector<double> grad_in;    ///< [written, columns] gradient rows before the chunk is reversed

  double* bank_row(std::int32_t row) { return bank.data() + std::int64_t{row} * columns; }
  const double* bank_row(std::int32_t row) const { return bank.data() + std::int64_t{row} * columns; }
};

class ErrorWalk;

/// Runs all tokens; fills delta, retrieved, reading, before, and leaves the final bank in `bank`.
void walk_forward(const StreamMap& map, const OracleOptions& options, StreamState& state, ErrorWalk* errors);

/// Runs the reverse from the final bank and the gradient in `grad_write`; adds into `dots`, fills d_v, and leaves the
/// initial bank's gradient in `grad_write`.
void walk_backward(const StreamMap& map, const OracleOptions& options, StreamState& state, StreamDots& dots,
                   ErrorWalk* errors);

}  // namespace sdm::oracle
