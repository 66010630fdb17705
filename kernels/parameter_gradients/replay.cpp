#include "kernels/common/host.h"
#include "kernels/parameter_gradients/contract.h"
#include "kernels/parameter_gradients/parameter_gradients.h"

namespace sdm::parameter_gradients {
namespace {

/// out[t][j], j <= t: the dot of rows[t] and delta_v[j]; on the diagonal only where `diagonal` is 1, else zero.
void token_dots(const Params& p, std::int64_t chunk, const float* rows, int diagonal, bool negate, float* out) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const float* delta_v = p.delta_v + chunk * c * d;
  std::vector<float> transposed(static_cast<std::size_t>(d) * host::kColumnBlock);
  for (int j0 = 0; j0 < c; j0 += host::kColumnBlock) {
    const int columns = std::min(host::kColumnBlock, c - j0);
    std::fill(transposed.begin(), transposed.end(), 0.0f);
    for (int j = 0; j < columns; ++j)
      for (int i = 0; i < d; ++i)
        transposed[static_cast<std::size_t>(i) * host::kColumnBlock + static_cast<std::size_t>(j)] =
            delta_v[std::int64_t{j0 + j} * d + i];
    for (int t = 0; t < c; ++t) {
      alignas(64) float acc[host::kColumnBlock] = {};
      if (t + diagonal > j0)
        for (int i = 0; i < d; ++i)
          host::fold_row(rows[std::int64_t{t} * d + i], &transposed[static_cast<std::size_t>(i) * host::kColumnBlock],
                         host::kColumnBlock, acc);
      for (int j = 0; j < std::min(columns, t + 1 - j0); ++j)
        out[std::int64_t{t} * c + j0 + j] = j0 + j < t + diagonal ? canonical(negate ? -acc[j] : acc[j]) : 0.0f;
    }
  }
}

/// Lane l folds i = l, l+32, ..; lanes are added far first.
template <typename Term>
float strided_dot(int count, Term&& term) {
  float partial[kLanes] = {};
  for (int i = 0; i < count; ++i) partial[i % kLanes] = term(i, partial[i % kLanes]);
  return tree_sum_far_first(partial);
}

void token_gradients(const Params& p, std::int64_t row) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const float* v = p.v + row * d;
  const float* retrieved = p.retrieved + row * d;
  const float* d_dva = p.d_dva + row * d;
  for (int i = 0; i < d; ++i) p.d_v[row * d + i] = canonical(p.beta[row] * d_dva[i]);
  const float dot = strided_dot(d, [&](int i, float acc) { return fma_rn(d_dva[i], v[i] - retrieved[i], acc); });
  const float pairs = strided_dot(static_cast<int>(row % c),
                                  [&](int j, float acc) { return fma_rn(p.a[row * c + j], p.dm[row * c + j], acc); });
  p.d_beta[row] = canonical(dot + pairs);
}

/// Entry coordinates of a sorted position.
struct Entry {
  std::int64_t at;  // in [N, C, entries]
  int token;
  bool last;
};

struct ChunkEntries {
  const Params& p;
  std::int64_t chunk;

  Entry write(int position) const { return entry(p.writes.payload, p.dims.writes, position); }
  Entry read(int position) const { return entry(p.reads.payload, p.dims.reads, position); }

  Entry entry(const std::uint32_t* payloads, int entries, int position) const {
    const std::int64_t at = chunk * p.dims.chunk * entries;
    const std::uint32_t payload = payloads[at + position];
    return {at + std::int64_t{token_of(payload)} * entries + entry_of(payload), token_of(payload),
            (payload & kLast) != 0};
  }

  float beta(int token) const { return p.beta[chunk * p.dims.chunk + token]; }
  float dm(int t, int j) const { return p.dm[(chunk * p.dims.chunk + t) * p.dims.chunk + j]; }
  float dqk(int t, int j) const { return p.dqk[(chunk * p.dims.chunk + t) * p.dims.chunk + j]; }

  /// Calls body(entry) for the members of the other side's group from `match` on.
  template <typename Side, typename Body>
  static void for_matched(int match, Side&& side, Body&& body) {
    for (int i = match; i >= 0; ++i) {
      const Entry e = side(i);
      body(e);
      if (e.last) return;
    }
  }

  WriteSums sums_of(int position, int begin, int end) const {
    const Entry e = write(position);
    const float log_e = p.log_k[e.at];
    WriteSums s;
    for (int i = begin; i < position; ++i) {
      const Entry j = write(i);
      s.row =
          add_pair(d_a(beta(e.token), dm(e.token, j.token)), host::value_at(p.k, j.at), log_e, p.log_k[j.at], s.row);
    }
    for (int i = position + 1; i < end; ++i) {
      const Entry later = write(i);
      s.col = add_pair(d_a(beta(later.token), dm(later.token, e.token)), host::value_at(p.k, later.at),
                       p.log_k[later.at], log_e, s.col);
    }
    const std::int64_t n = p.dims.write_positions();
    for_matched(
        p.writes.match[chunk * n + position], [&](int i) { return read(i); },
        [&](const Entry& r) {
          if (r.token >= e.token)
            s.read = add_pair(dqk(r.token, e.token), host::value_at(p.q, r.at), p.log_q[r.at], log_e, s.read);
        });
    return s;
  }

  void write_entries(int begin, int end) const {
    for (int i = begin; i < end; ++i) {
      const std::int64_t e = write(i).at;
      const WriteGradients g =
          write_gradients(host::value_at(p.k, e), p.log_k[e], p.rex[e], p.d_kw[e], p.d_ww[e], sums_of(i, begin, end));
      p.d_k[e] = canonical(g.d_k);
      p.d_log_k[e] = canonical(g.d_log_k);
      p.d_rex[e] = canonical(g.d_rex);
    }
  }

  void read_entry(int position) const {
    const Entry e = read(position);
    float rd = 0.0f;
    for_matched(
        p.reads.match[chunk * p.dims.read_positions() + position], [&](int i) { return write(i); },
        [&](const Entry& j) {
          if (j.token <= e.token)
            rd = add_pair(dqk(e.token, j.token), host::value_at(p.k, j.at), p.log_q[e.at], p.log_k[j.at], rd);
        });
    const ReadGradients g = read_gradients(host::value_at(p.q, e.at), p.log_q[e.at], p.d_qw[e.at], rd);
    p.d_q[e.at] = canonical(g.d_q);
    p.d_log_q[e.at] = canonical(g.d_log_q);
  }

  void gate_gradients(int begin, int end) const {
    float read_sums[256];  // by token: a group has at most one entry a token
    std::vector<Entry> reads;
    for_matched(
        p.writes.match[chunk * p.dims.write_positions() + begin], [&](int i) { return read(i); },
        [&](const Entry& r) { reads.push_back(r); });
    float later = 0.0f, read_sum = 0.0f, earlier = 0.0f;
    std::size_t next_read = reads.size();
    for (int i = end - 1; i >= begin; --i) {
      const Entry e = write(i);
      later = later + p.d_log_k[e.at];
      while (next_read > 0 && reads[next_read - 1].token >= e.token)
        read_sum = read_sum + p.d_log_q[reads[--next_read].at];
      // The earlier members' sum runs the other way; the two meet in the loop below.
      p.d_gate[e.at] = p.d_decay[e.at] + later;
      read_sums[e.token] = read_sum;
    }
    for (int i = begin; i < end; ++i) {
      const Entry e = write(i);
      p.d_gate[e.at] = canonical((p.d_gate[e.at] + earlier) + read_sums[e.token]);
      earlier = earlier + p.d_rex[e.at];
    }
  }
};

void entry_gradients(const Params& p, std::int64_t chunk) {
  const ChunkEntries entries{p, chunk};
  const int valid = p.dims.valid_tokens_of_chunk(chunk);
  const std::int64_t write_at = chunk * p.dims.write_positions(), read_at = chunk * p.dims.read_positions();
  for (int i = 0; i < valid * p.dims.reads; ++i) entries.read_entry(i);
  for (int begin = 0; begin < valid * p.dims.writes;) {
    int end = begin + 1;
    while (!(p.writes.payload[write_at + end - 1] & kLast)) ++end;
    entries.write_entries(begin, end);
    entries.gate_gradients(begin, end);
    begin = end;
  }
  for (std::int64_t e = write_at + valid * p.dims.writes; e < write_at + p.dims.write_positions(); ++e)
    p.d_k[e] = p.d_log_k[e] = p.d_rex[e] = p.d_gate[e] = 0.0f;
  for (std::int64_t e = read_at + valid * p.dims.reads; e < read_at + p.dims.read_positions(); ++e)
    p.d_q[e] = p.d_log_q[e] = 0.0f;
}

void scalar_gate(const Params& p, std::int64_t chunk) {
  const int w = p.dims.writes;
  for (std::int64_t row = chunk * p.dims.chunk; row < (chunk + 1) * p.dims.chunk; ++row) {
    float sum = 0.0f;
    for (int n = 0; n < w; ++n) sum = sum + p.d_gate[row * w + n];
    p.d_g[row] = canonical(sum);
  }
}

}  // namespace

void replay(const Params& p, Parallel& threads) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  threads.for_each(p.dims.chunks(), [&](std::int64_t chunk) {
    token_dots(p, chunk, p.d_dva + chunk * c * d, 0, true, p.dm + chunk * c * c);
    token_dots(p, chunk, p.d_reading + chunk * c * d, 1, false, p.dqk + chunk * c * c);
    for (std::int64_t row = chunk * c; row < (chunk + 1) * c; ++row) token_gradients(p, row);
    entry_gradients(p, chunk);
    if (p.gate == Gate::token) scalar_gate(p, chunk);
  });
}

}  // namespace sdm::parameter_gradients
