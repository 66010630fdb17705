// The reverse of spec 1.1. The gradient of a bank row is held in two parts whose sum is the gradient:
//   grad_write  what `undo` has made of it: the gradient from later chunks and this chunk's writes
//   grad_read   what this chunk's reads add, decayed to the chunk's begin; `read_grad` adds it
// The recurrence is linear in the gradient, so the split is exact, and it lets both parts be rounded where the device
// rounds its gradient bank: G = round(round(grad_write) + grad_read) at every chunk begin.
#include <algorithm>
#include <cmath>

#include "oracle/error_walk.h"
#include "oracle/rounding.h"
#include "oracle/stream.h"

namespace sdm::oracle {

namespace {

/// Rolls the bank back to the chunk's begin, as the snapshot gives it, and walks forward again with the deltas that
/// the forward made, logging every row before it is decayed: the trajectory that the reverse differentiates along.
void replay_chunk(const StreamMap& map, int chunk, StreamState& s) {
  const int columns = s.columns, writes = map.w.writes;
  const auto& written = map.written[chunk];
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::copy_n(s.before[chunk].data() + i * columns, columns, s.bank_row(written[i]));
    std::copy_n(s.grad_write.data() + std::int64_t{written[i]} * columns, columns, s.grad_in.data() + i * columns);
  }
  const int begin = map.chunk_begin(chunk);
  for (int t = begin; t < map.chunk_end(chunk); ++t) {
    const double* delta = s.delta.data() + std::int64_t{t} * columns;
    for (int n = 0; n < writes; ++n) {
      double* row = s.bank_row(map.k_row[std::int64_t{t} * writes + n]);
      double* old = s.old_rows.data() + (std::int64_t{t - begin} * writes + n) * columns;
      const double decay = std::exp(map.g(t, n)), k = map.k(t, n);
      for (int c = 0; c < columns; ++c) {
        old[c] = row[c];
        row[c] = decay * row[c] + k * delta[c];
      }
    }
  }
}

void reverse_reads(const StreamMap& map, int t, StreamState& s, StreamDots& dots) {
  const float* d_reading = map.d_reading(t, s.first_column);
  for (int m = 0; m < map.w.reads; ++m) {
    const std::int64_t entry = std::int64_t{t} * map.w.reads + m;
    const double* row = s.bank_row(map.q_row[entry]);
    double* grad = s.grad_read.data() + std::int64_t{map.q_row[entry]} * s.columns;
    const double q = map.q(t, m);
    double d_q = 0;
    for (int c = 0; c < s.columns; ++c) {
      d_q += d_reading[c] * row[c];
      grad[c] += q * d_reading[c];
    }
    dots.d_q[entry] += d_q;
  }
}

/// d_delta = sum_n k_n G_n, d_beta, d_v. Logs the gradient rows that the write's reverse uses.
void reverse_delta(const StreamMap& map, int t, int local, StreamState& s, StreamDots& dots) {
  const int columns = s.columns, writes = map.w.writes;
  double* d_delta = s.d_delta.data() + std::int64_t{local} * columns;
  std::fill_n(d_delta, columns, 0.0);
  for (int n = 0; n < writes; ++n) {
    const std::int64_t row = std::int64_t{map.k_row[std::int64_t{t} * writes + n]} * columns;
    double* used = s.used_grad.data() + (std::int64_t{local} * writes + n) * columns;
    const double k = map.k(t, n);
    for (int c = 0; c < columns; ++c) {
      used[c] = s.grad_write[row + c] + s.grad_read[row + c];
      d_delta[c] += k * used[c];
    }
  }
  const float* v = map.v(t, s.first_column);
  const double* retrieved = s.retrieved.data() + std::int64_t{t} * columns;
  double* d_v = s.d_v.data() + std::int64_t{t} * columns;
  const double beta = map.beta(t);
  double d_beta = 0;
  for (int c = 0; c < columns; ++c) {
    d_beta += d_delta[c] * (v[c] - retrieved[c]);
    d_v[c] = beta * d_delta[c];
  }
  dots.d_beta[t] += d_beta;
}

void reverse_writes(const StreamMap& map, int t, int local, StreamState& s, StreamDots& dots) {
  const int columns = s.columns, writes = map.w.writes;
  const double* delta = s.delta.data() + std::int64_t{t} * columns;
  const double* d_delta = s.d_delta.data() + std::int64_t{local} * columns;
  const double beta = map.beta(t);
  for (int n = 0; n < writes; ++n) {
    const std::int64_t entry = std::int64_t{t} * writes + n, log = std::int64_t{local} * writes + n;
    const std::int64_t row = std::int64_t{map.k_row[entry]} * columns;
    const double* old = s.old_rows.data() + log * columns;
    const double* used = s.used_grad.data() + log * columns;
    const double decay = std::exp(map.g(t, n)), k = map.k(t, n);
    double d_k = 0, d_g = 0;
    for (int c = 0; c < columns; ++c) {
      const double d_retrieved = -beta * d_delta[c], decayed = decay * old[c];
      d_k += used[c] * delta[c] + d_retrieved * decayed;
      d_g += (used[c] + k * d_retrieved) * decayed;
      s.grad_write[row + c] = decay * (s.grad_write[row + c] + k * d_retrieved);
      s.grad_read[row + c] *= decay;
    }
    std::copy_n(old, columns, s.bank.data() + row);
    dots.d_k[entry] += d_k;
    dots.d_g[entry] += d_g;
  }
}

/// G = round(round(grad_write) + grad_read) over the chunk's rows; leaves G in grad_write and zero in grad_read.
void close_chunk(const StreamMap& map, int chunk, bool rounded, StreamState& s) {
  const DType dtype = map.w.grad_dtype;
  if (rounded) {
    for (std::int32_t row : map.written[chunk])
      for (int c = 0; c < s.columns; ++c) {
        double& x = s.grad_write[std::int64_t{row} * s.columns + c];
        x = round_to(x, dtype);
      }
  }
  const std::int64_t first = std::int64_t{map.chunk_begin(chunk)} * map.w.reads;
  const std::int64_t last = std::int64_t{map.chunk_end(chunk)} * map.w.reads;
  for (std::int64_t entry = first; entry < last; ++entry) {
    const std::int64_t row = std::int64_t{map.q_row[entry]} * s.columns;
    for (int c = 0; c < s.columns; ++c) {  // a row met again adds zero to a rounded value
      const double sum = s.grad_write[row + c] + s.grad_read[row + c];
      s.grad_write[row + c] = rounded ? round_to(sum, dtype) : sum;
      s.grad_read[row + c] = 0;
    }
  }
}

}  // namespace

void walk_backward(const StreamMap& map, const OracleOptions& options, StreamState& s, StreamDots& dots,
                   ErrorWalk* errors) {
  const std::size_t log_size = std::size_t(map.w.chunk) * map.w.writes * s.columns;
  s.grad_read.assign(s.bank.size(), 0.0);
  s.d_v.assign(std::size_t(map.w.tokens) * s.columns, 0.0);
  s.old_rows.resize(log_size);
  s.used_grad.resize(log_size);
  s.grad_in.resize(log_size);
  s.d_delta.resize(std::size_t(map.w.chunk) * s.columns);
  for (int chunk = map.w.steps() - 1; chunk >= 0; --chunk) {
    replay_chunk(map, chunk, s);
    const int begin = map.chunk_begin(chunk);
    for (int t = map.chunk_end(chunk) - 1; t >= begin; --t) {
      reverse_reads(map, t, s, dots);
      reverse_delta(map, t, t - begin, s, dots);
      reverse_writes(map, t, t - begin, s, dots);
    }
    if (errors) errors->reverse_chunk(chunk, s, dots);  // wants the gradient rows before they are rounded
    close_chunk(map, chunk, options.round_bank, s);
    s.before[chunk] = {};
  }
}

}  // namespace sdm::oracle
