#pragma once
#include <cmath>
#include <map>
#include <vector>

#include "oracle_support.h"

// A plain implementation of the chunked form (spec 1.2, 1.3), test only. In double without rounding it must agree with
// the recurrence; in float, with rows rounded where the device rounds them, it is what the bounds must accept, and
// with a planted fault what they must reject.
namespace sdm::oracle_test {

enum class Fault {
  none,
  read_before_write,       // QK without its diagonal
  interaction_off_by_one,  // A[t,t-1] missing
  dropped_decay,           // cpe = 1 in the write
  stale_read_decay,        // log_q ignores a write of the same token
  shifted_delta,           // the write takes the delta of the token before
  solve_without_beta,
  swapped_strengths,  // QK takes k for q
  delta_in_bf16,
  retrieved_in_bf16,
  readings_grad_in_bf16,
  weights_in_bf16,
  bank_not_rounded,
  bank_truncated,
  bank_rounded_twice,  // decayed row rounded before the write is added
  grad_not_rounded,
  grad_rounded_once,  // not between undo and read_grad
  undo_without_beta,
  undo_without_decay,
  snapshot_after_write,
  bank_not_rolled_back,
  d_k_without_beta,
  d_k_without_reads,
  d_beta_without_interactions,
  d_g_excludes_itself,
  d_g_rex_includes_itself,
  d_g_without_reads,
  d_q_without_interactions,
  quantized_scale_off,  // amax / 8 or / 240
  count
};

template <typename Real>
struct ChunkedOutputs {
  std::vector<Real> reading, final_bank, d_bank, d_k, d_q, d_v, d_beta, d_g;
};

struct Entry {
  int token, index;  // index = token*width + entry
};

struct Group {
  std::int32_t row = 0;
  std::vector<Entry> writes, reads;
};

template <typename Real>
class Chunked {
 public:
  using Values = std::vector<Real>;

  Chunked(const DrawnCase& c, bool rounded, Fault fault)
      : w_(c.workload),
        in_(c.inputs),
        rounded_(rounded),
        fault_(fault),
        C_(w_.chunk),
        W_(w_.writes),
        R_(w_.reads),
        D_(w_.head_dim),
        bank_(c.bank.begin(), c.bank.end()),
        grad_(c.d_final.begin(), c.d_final.end()) {
    if (grad_.empty()) grad_.assign(bank_.size(), 0);
    const auto tokens = std::size_t(w_.chunks() * C_);
    out_.reading.assign(tokens * D_, 0);
    out_.d_v = out_.reading;
    out_.d_k.assign(tokens * W_, 0);
    out_.d_q.assign(tokens * R_, 0);
    out_.d_beta.assign(tokens, 0);
    out_.d_g.assign(tokens * (w_.gate == Gate::token ? 1 : W_), 0);
  }

  ChunkedOutputs<Real> run() {
    std::vector<Chunk> chunks;
    for (std::int64_t i = 0; i < w_.chunks(); ++i) chunks.push_back(prepare(i));
    for (Chunk& x : chunks) forward(x);
    out_.final_bank = bank_;
    for (auto x = chunks.rbegin(); x != chunks.rend(); ++x) backward(*x);
    for (Chunk& x : chunks) parameter_gradients(x);
    out_.d_bank = grad_;
    return out_;
  }

 private:
  struct Chunk {
    std::int64_t token0 = 0;  // padded index of its first token
    int n = 0;                // valid tokens
    std::vector<Group> groups;
    Values log_k, rex, log_q, cpe;                                // [n*W], [n*W], [n*R], [groups]
    Values A, QK, S, B, QB;                                       // [n, n]
    Values base_dv, base_out, retrieved, delta, d_dva, base_dva;  // [n, D]
    Values d_ww, d_kw, d_decay, d_qw;                             // [n*W] x3, [n*R]
    std::map<std::int32_t, Values> snapshot;
  };

  static Real bf16(Real x) { return static_cast<Real>(oracle::round_to(x, DType::bf16)); }
  bool is(Fault fault) const { return fault_ == fault; }
  Real k(const Chunk& x, int e) const { return in_.k[x.token0 * W_ + e]; }
  Real q(const Chunk& x, int e) const { return in_.q[x.token0 * R_ + e]; }
  Real beta(const Chunk& x, int t) const { return in_.beta[x.token0 + t]; }
  Real gate(const Chunk& x, int e) const {
    return w_.gate == Gate::token ? in_.g[x.token0 + e / W_] : in_.g[x.token0 * W_ + e];
  }
  Real gr(const Chunk& x, int t, int d) const {
    const Real value = in_.d_reading[(x.token0 + t) * D_ + d];
    return is(Fault::readings_grad_in_bf16) ? bf16(value) : value;
  }
  Real gather_weight(Real value) const {
    return w_.weight_dtype == DType::bf16 || is(Fault::weights_in_bf16) ? bf16(value) : value;
  }
  Real to_bank(Real x) const {
    if (!rounded_ || is(Fault::bank_not_rounded)) return x;
    if (is(Fault::bank_truncated) && w_.bank_dtype == DType::bf16) {
      const Real near = bf16(x);
      return std::fabs(near) > std::fabs(x)
                 ? static_cast<Real>(near - std::copysign(oracle::spacing(x, DType::bf16), x))
                 : near;
    }
    return static_cast<Real>(oracle::round_to(x, w_.bank_dtype));
  }
  Real to_grad(Real x) const {
    return rounded_ && !is(Fault::grad_not_rounded) ? static_cast<Real>(oracle::round_to(x, w_.grad_dtype)) : x;
  }

  Chunk prepare(std::int64_t chunk) {
    Chunk x;
    x.token0 = chunk * C_;
    x.n = int(std::min<std::int64_t>(C_, w_.tokens - chunk / w_.streams * C_));
    std::map<std::int32_t, Group> by_row;
    for (int e = 0; e < x.n * W_; ++e) by_row[in_.k_idx[x.token0 * W_ + e]].writes.push_back({e / W_, e});
    for (int e = 0; e < x.n * R_; ++e) by_row[in_.q_idx[x.token0 * R_ + e]].reads.push_back({e / R_, e});
    for (auto& [row, group] : by_row) {
      group.row = row;
      x.groups.push_back(group);
    }
    decay_sums(x);
    interactions(x);
    solve(x);
    combine(x);
    return x;
  }

  void decay_sums(Chunk& x) {
    x.log_k.assign(std::size_t(x.n) * W_, 0);
    x.rex = x.log_k;
    x.log_q.assign(std::size_t(x.n) * R_, 0);
    for (const Group& g : x.groups) {
      Real sum = 0;
      for (const Entry& e : g.writes) x.log_k[e.index] = sum += gate(x, e.index);
      x.cpe.push_back(std::exp(sum));
      sum = 0;
      for (auto e = g.writes.rbegin(); e != g.writes.rend(); ++e) {
        x.rex[e->index] = sum;
        sum += gate(x, e->index);
      }
      for (const Entry& r : g.reads)
        for (const Entry& e : g.writes)
          if (e.token < r.token || (e.token == r.token && !is(Fault::stale_read_decay)))
            x.log_q[r.index] = x.log_k[e.index];
    }
  }

  void interactions(Chunk& x) {
    x.A.assign(std::size_t(x.n) * x.n, 0);
    x.QK = x.A;
    for (const Group& g : x.groups)
      for (const Entry& j : g.writes) {
        for (const Entry& e : g.writes)
          if (j.token < e.token && !(is(Fault::interaction_off_by_one) && j.token == e.token - 1)) {
            const Real weight = k(x, e.index) * std::exp(x.log_k[e.index] - x.log_k[j.index]);
            Real& a = x.A[std::size_t(e.token) * x.n + j.token];
            a = std::fma(weight, k(x, j.index), a);
          }
        for (const Entry& r : g.reads)
          if (j.token < r.token || (j.token == r.token && !is(Fault::read_before_write))) {
            const Real strength = is(Fault::swapped_strengths) ? k(x, j.index) : q(x, r.index);
            Real& a = x.QK[std::size_t(r.token) * x.n + j.token];
            a = std::fma(strength * std::exp(x.log_q[r.index] - x.log_k[j.index]), k(x, j.index), a);
          }
      }
  }

  void solve(Chunk& x) {
    x.S.assign(x.A.size(), 0);
    for (int i = 0; i < x.n; ++i) {
      x.S[std::size_t(i) * x.n + i] = 1;
      for (int c = 0; c < i; ++c) {
        Real acc = 0;
        for (int m = c; m < i; ++m) {
          const Real L = (is(Fault::solve_without_beta) ? Real(1) : beta(x, i)) * x.A[std::size_t(i) * x.n + m];
          acc = std::fma(L, x.S[std::size_t(m) * x.n + c], acc);
        }
        x.S[std::size_t(i) * x.n + c] = -acc;
      }
    }
  }

  /// out[i, d] += sum_{j <= i} T[i, j] in[j, d]
  void lower(const Chunk& x, const Values& T, const Values& in, Values& out) const {
    for (int i = 0; i < x.n; ++i)
      for (int j = 0; j <= i; ++j)
        for (int d = 0; d < D_; ++d)
          out[i * D_ + d] = std::fma(T[std::size_t(i) * x.n + j], in[j * D_ + d], out[i * D_ + d]);
  }
  void lower_transposed(const Chunk& x, const Values& T, const Values& in, Values& out) const {
    for (int i = 0; i < x.n; ++i)
      for (int j = 0; j <= i; ++j)
        for (int d = 0; d < D_; ++d)
          out[j * D_ + d] = std::fma(T[std::size_t(i) * x.n + j], in[i * D_ + d], out[j * D_ + d]);
  }

  void combine(Chunk& x) {
    const int n = x.n;
    x.B.assign(x.S.size(), 0);
    x.QB = x.B;
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= i; ++j) x.B[std::size_t(i) * n + j] = -x.S[std::size_t(i) * n + j] * beta(x, j);
    for (int i = 0; i < n; ++i)
      for (int m = 0; m <= i; ++m)
        for (int j = 0; j <= m; ++j) {
          Real& to = x.QB[std::size_t(i) * n + j];
          to = std::fma(x.QK[std::size_t(i) * n + m], x.B[std::size_t(m) * n + j], to);
        }
    Values bv(std::size_t(n) * D_);
    for (int i = 0; i < n * D_; ++i) bv[i] = beta(x, i / D_) * Real(in_.v[x.token0 * D_ + i]);
    x.base_dv.assign(bv.size(), 0);
    x.base_out = x.base_dv;
    lower(x, x.S, bv, x.base_dv);
    lower(x, x.QK, x.base_dv, x.base_out);
  }

  void forward(Chunk& x) {
    x.retrieved.assign(std::size_t(x.n) * D_, 0);
    Values reading(x.retrieved);
    for (const Group& g : x.groups)
      for (int d = 0; d < D_; ++d) {
        const Real row = bank_[std::int64_t{g.row} * D_ + d];
        for (const Entry& e : g.writes) {
          Real& r = x.retrieved[e.token * D_ + d];
          r = std::fma(gather_weight(k(x, e.index) * std::exp(x.log_k[e.index])), row, r);
        }
        for (const Entry& e : g.reads) {
          Real& r = reading[e.token * D_ + d];
          r = std::fma(gather_weight(q(x, e.index) * std::exp(x.log_q[e.index])), row, r);
        }
      }
    if (is(Fault::retrieved_in_bf16))
      for (Real& r : x.retrieved) r = bf16(r);
    x.delta = x.base_dv;
    lower(x, x.B, x.retrieved, x.delta);
    for (int i = 0; i < x.n * D_; ++i) reading[i] += x.base_out[i];
    lower(x, x.QB, x.retrieved, reading);
    if (is(Fault::delta_in_bf16))
      for (Real& r : x.delta) r = bf16(r);
    for (int i = 0; i < x.n * D_; ++i) out_.reading[x.token0 * D_ + i] = reading[i];
    write(x);
  }

  void write(Chunk& x) {
    for (std::size_t i = 0; i < x.groups.size(); ++i) {
      const Group& g = x.groups[i];
      if (g.writes.empty()) continue;
      Real* row = bank_.data() + std::int64_t{g.row} * D_;
      Values saved(row, row + D_);
      for (int d = 0; d < D_; ++d) {
        Real acc = 0;
        for (const Entry& e : g.writes) {
          const int token = is(Fault::shifted_delta) ? std::max(0, e.token - 1) : e.token;
          acc = std::fma(k(x, e.index) * std::exp(x.rex[e.index]), x.delta[token * D_ + d], acc);
        }
        const Real cpe = is(Fault::dropped_decay) ? Real(1) : x.cpe[i];
        row[d] =
            is(Fault::bank_rounded_twice) ? to_bank(to_bank(row[d] * cpe) + acc) : to_bank(std::fma(row[d], cpe, acc));
      }
      if (is(Fault::snapshot_after_write)) saved.assign(row, row + D_);
      round_trip(saved);
      x.snapshot[g.row] = saved;
    }
  }

  void round_trip(Values& row) const {
    if (!rounded_) return;
    if (w_.snapshot == SnapshotFormat::bf16)
      for (Real& r : row) r = bf16(r);
    if (w_.snapshot != SnapshotFormat::fp8 && w_.snapshot != SnapshotFormat::int4) return;
    const bool fp8 = w_.snapshot == SnapshotFormat::fp8, off = is(Fault::quantized_scale_off);
    float amax = 0;
    for (Real r : row) amax = std::max(amax, std::fabs(float(r)));
    const float scale = std::max(amax / (fp8 ? (off ? 240.0f : 448.0f) : (off ? 8.0f : 7.0f)), 1e-12f);
    for (Real& r : row) {
      const float y = float(r) / scale;
      const double payload = fp8 ? oracle::round_e4m3(y) : oracle::round_int4(y);
      r = Real(oracle::round_to(float(payload) * scale, w_.bank_dtype));
    }
  }

  void backward(Chunk& x) {
    const int n = x.n;
    Values U(std::size_t(n) * D_, 0), g_reading(U.size());
    for (int i = 0; i < n * D_; ++i) g_reading[i] = gr(x, i / D_, i % D_);
    lower_transposed(x, x.QK, g_reading, U);
    x.base_dva.assign(U.size(), 0);
    lower_transposed(x, x.S, U, x.base_dva);
    gather_grad(x);
    for (std::size_t i = 0; i < x.groups.size(); ++i) undo(x, x.groups[i], x.cpe[i]);
    for (const Group& g : x.groups) read_grad(x, g);
  }

  void gather_grad(Chunk& x) {
    Values d_dv(std::size_t(x.n) * D_, 0);
    x.d_ww.assign(std::size_t(x.n) * W_, 0);
    for (const Group& g : x.groups)
      for (const Entry& e : g.writes) {
        const Real weight = k(x, e.index) * std::exp(x.rex[e.index]);
        for (int d = 0; d < D_; ++d) {
          const Real grad = grad_[std::int64_t{g.row} * D_ + d];
          d_dv[e.token * D_ + d] = std::fma(weight, grad, d_dv[e.token * D_ + d]);
          x.d_ww[e.index] = std::fma(x.delta[e.token * D_ + d], grad, x.d_ww[e.index]);
        }
      }
    x.d_dva = x.base_dva;
    lower_transposed(x, x.S, d_dv, x.d_dva);
  }

  void undo(Chunk& x, const Group& g, Real cpe) {
    x.d_kw.resize(std::size_t(x.n) * W_);
    x.d_decay.resize(x.d_kw.size());
    if (g.writes.empty()) return;
    Real* grad = grad_.data() + std::int64_t{g.row} * D_;
    Real* row = bank_.data() + std::int64_t{g.row} * D_;
    const Values& snap = x.snapshot[g.row];
    Real decay = 0;
    for (int d = 0; d < D_; ++d) decay = std::fma(grad[d], snap[d], decay);
    for (const Entry& e : g.writes) {
      Real dot = 0;
      for (int d = 0; d < D_; ++d) dot = std::fma(x.d_dva[e.token * D_ + d], snap[d], dot);
      x.d_kw[e.index] = -(is(Fault::d_k_without_beta) ? Real(1) : beta(x, e.token)) * dot;
      x.d_decay[e.index] = cpe * decay;
    }
    for (int d = 0; d < D_; ++d) {
      Real acc = 0;
      for (const Entry& e : g.writes) {
        const Real factor = is(Fault::undo_without_beta) ? Real(1) : beta(x, e.token);
        acc = std::fma(-factor * (k(x, e.index) * std::exp(x.log_k[e.index])), x.d_dva[e.token * D_ + d], acc);
      }
      const Real updated = std::fma(grad[d], is(Fault::undo_without_decay) ? Real(1) : cpe, acc);
      grad[d] = is(Fault::grad_rounded_once) && !g.reads.empty() ? updated : to_grad(updated);
      if (!is(Fault::bank_not_rolled_back)) row[d] = snap[d];
    }
  }

  void read_grad(Chunk& x, const Group& g) {
    x.d_qw.resize(std::size_t(x.n) * R_);
    if (g.reads.empty()) return;
    for (const Entry& e : g.reads) {
      Real dot = 0;
      for (int d = 0; d < D_; ++d) dot = std::fma(gr(x, e.token, d), bank_[std::int64_t{g.row} * D_ + d], dot);
      x.d_qw[e.index] = dot;
    }
    for (int d = 0; d < D_; ++d) {
      Real acc = 0;
      for (const Entry& e : g.reads) acc = std::fma(q(x, e.index) * std::exp(x.log_q[e.index]), gr(x, e.token, d), acc);
      Real& grad = grad_[std::int64_t{g.row} * D_ + d];
      grad = to_grad(grad + acc);
    }
  }

  Real dot(const Values& a, int i, const Values& b, int j) const {
    Real sum = 0;
    for (int d = 0; d < D_; ++d) sum = std::fma(a[i * D_ + d], b[j * D_ + d], sum);
    return sum;
  }

  void parameter_gradients(Chunk& x) {
    const int n = x.n;
    Values dM(std::size_t(n) * n, 0), dQK(dM), g_reading(std::size_t(n) * D_), residual(g_reading);
    for (int i = 0; i < n * D_; ++i) {
      g_reading[i] = gr(x, i / D_, i % D_);
      residual[i] = Real(in_.v[x.token0 * D_ + i]) - x.retrieved[i];
      out_.d_v[x.token0 * D_ + i] = beta(x, i / D_) * x.d_dva[i];
    }
    for (int t = 0; t < n; ++t) {
      Real d_beta = dot(x.d_dva, t, residual, t);
      for (int j = 0; j <= t; ++j) {
        const std::size_t at = std::size_t(t) * n + j;
        dQK[at] = dot(g_reading, t, x.delta, j);
        if (j < t) dM[at] = -dot(x.d_dva, t, x.delta, j);
        if (!is(Fault::d_beta_without_interactions)) d_beta = std::fma(x.A[at], dM[at], d_beta);
      }
      out_.d_beta[x.token0 + t] = d_beta;
    }
    for (const Group& g : x.groups) group_gradients(x, g, dM, dQK);
  }

  void group_gradients(Chunk& x, const Group& g, const Values& dM, const Values& dQK) {
    const int n = x.n;
    Values d_log_k(g.writes.size()), d_rex(g.writes.size()), d_log_q(g.reads.size());
    for (std::size_t i = 0; i < g.writes.size(); ++i) {
      const Entry e = g.writes[i];
      Real row = 0, col = 0, read = 0;
      for (const Entry& j : g.writes) {
        const Real up = std::exp(x.log_k[e.index] - x.log_k[j.index]);
        if (j.token < e.token) row += beta(x, e.token) * dM[std::size_t(e.token) * n + j.token] * (k(x, j.index) * up);
        if (j.token > e.token)
          col += beta(x, j.token) * dM[std::size_t(j.token) * n + e.token] *
                 (k(x, j.index) * std::exp(x.log_k[j.index] - x.log_k[e.index]));
      }
      for (const Entry& r : g.reads)
        if (r.token >= e.token)
          read +=
              dQK[std::size_t(r.token) * n + e.token] * q(x, r.index) * std::exp(x.log_q[r.index] - x.log_k[e.index]);
      const Real up = std::exp(x.log_k[e.index]), down = std::exp(x.rex[e.index]), strength = k(x, e.index);
      out_.d_k[x.token0 * W_ + e.index] =
          x.d_kw[e.index] * up + x.d_ww[e.index] * down + row + col + (is(Fault::d_k_without_reads) ? Real(0) : read);
      d_log_k[i] = strength * up * x.d_kw[e.index] + strength * row - strength * col - strength * read;
      d_rex[i] = strength * down * x.d_ww[e.index];
    }
    for (std::size_t i = 0; i < g.reads.size(); ++i) {
      const Entry r = g.reads[i];
      Real rd = 0;
      for (const Entry& j : g.writes)
        if (j.token <= r.token && !is(Fault::d_q_without_interactions))
          rd += dQK[std::size_t(r.token) * n + j.token] * k(x, j.index) * std::exp(x.log_q[r.index] - x.log_k[j.index]);
      out_.d_q[x.token0 * R_ + r.index] = x.d_qw[r.index] * std::exp(x.log_q[r.index]) + rd;
      d_log_q[i] = q(x, r.index) * std::exp(x.log_q[r.index]) * x.d_qw[r.index] + q(x, r.index) * rd;
    }
    for (std::size_t i = 0; i < g.writes.size(); ++i) {
      const Entry e = g.writes[i];
      Real sum = x.d_decay[e.index];
      for (std::size_t j = 0; j < g.writes.size(); ++j) {
        if (j > i || (j == i && !is(Fault::d_g_excludes_itself))) sum += d_log_k[j];
        if (j < i || (j == i && is(Fault::d_g_rex_includes_itself))) sum += d_rex[j];
      }
      for (std::size_t j = 0; j < g.reads.size(); ++j)
        if (g.reads[j].token >= e.token && !is(Fault::d_g_without_reads)) sum += d_log_q[j];
      if (w_.gate == Gate::token)
        out_.d_g[x.token0 + e.token] += sum;
      else
        out_.d_g[x.token0 * W_ + e.index] = sum;
    }
  }

  const SparseWorkload& w_;
  const SparseInputs& in_;
  bool rounded_;
  Fault fault_;
  int C_, W_, R_, D_;
  Values bank_, grad_;
  ChunkedOutputs<Real> out_;
};

}  // namespace sdm::oracle_test
