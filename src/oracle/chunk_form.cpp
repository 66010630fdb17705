// Numbers (n) are equations of docs/oracle.md.
#include "oracle/chunk_form.h"

#include <algorithm>
#include <cmath>

#include "oracle/bounds.h"

namespace sdm::oracle {

namespace {

/// A decay sum and the variance of its error (1): a running sum of `adds` roundings, none larger than u*|sum|.
struct Log {
  double value = 0, variance = 0;
};
Log running_sum(double value, int adds) { return {value, adds * kU2 * value * value}; }

/// (2) exp at most 1 ulp (2u) off and exact at 0, of an argument with an error.
double exp_relative(const Log& log) { return log.value == 0 ? 0.0 : log.variance + 4 * kU2; }

/// (3) x*exp(log), the product rounded.
Weight weight(double x, const Log& log) { return {x * std::exp(log.value), exp_relative(log) + kU2}; }

/// (4) relative variance of a term x*y*exp(a - b): difference, exp and two products rounded.
double pair_relative(const Log& a, const Log& b) {
  const double difference = a.value - b.value;
  return exp_relative({difference, a.variance + b.variance + kU2 * difference * difference}) + 2 * kU2;
}

/// The gather's weight may be rounded to bf16: the oracle rounds it as well, so what is left is whether it can round
/// the other way (14). A flip moves all columns of a token together, so for the sake of dots it counts D-fold (17).
double gather_relative(const StreamMap& map, const Weight& exact) {
  if (map.w.weight_dtype == DType::f32 || exact.value == 0) return exact.relative;
  const double size2 = exact.value * exact.value;
  return map.w.head_dim * variance_after_rounding(exact.value, exact.relative * size2, DType::bf16, true) / size2;
}

struct Member {
  int token, entry;
  Log log;  // log_k
};

struct Builder {
  const StreamMap& map;
  int chunk, begin;
  ChunkForm f = {};
  std::vector<std::vector<Member>> groups = {};
  Triangle A = {}, A_terms = {}, A_var = {}, A_count = {}, QK_terms = {}, QK_count = {};
};

void group_writes(Builder& b) {
  const auto& written = b.map.written[b.chunk];
  b.groups.resize(written.size());
  for (int t = 0; t < b.f.n; ++t)
    for (int n = 0; n < b.map.w.writes; ++n) {
      const std::int32_t row = b.map.k_row[(std::int64_t{b.begin} + t) * b.map.w.writes + n];
      const auto g = std::lower_bound(written.begin(), written.end(), row) - written.begin();
      auto& members = b.groups[g];
      const double before = members.empty() ? 0.0 : members.back().log.value;
      members.push_back({t, n, running_sum(before + b.map.g(b.begin + t, n), static_cast<int>(members.size()))});
      b.f.k_group.push_back(static_cast<int>(g));
    }
}

void write_weights(Builder& b) {
  const int writes = b.map.w.writes;
  ChunkForm& f = b.f;
  f.k.resize(std::size_t(f.n) * writes);
  f.write = f.k;
  f.gather_k.resize(f.k.size());
  for (const auto& members : b.groups) {
    double rex = 0;
    for (int i = static_cast<int>(members.size()) - 1, adds = 0; i >= 0; --i, ++adds) {
      const Member& m = members[i];
      const std::size_t at = std::size_t(m.token) * writes + m.entry;
      const double k = b.map.k(b.begin + m.token, m.entry);
      f.k[at] = weight(k, m.log);
      f.gather_k[at] = gather_relative(b.map, f.k[at]);
      f.write[at] = weight(k, running_sum(rex, std::max(0, adds - 1)));
      rex += b.map.g(b.begin + m.token, m.entry);
    }
    const Log total = members.back().log;
    f.group.push_back({std::exp(total.value), exp_relative(total)});
    f.members.push_back(static_cast<int>(members.size()));
    f.log2.push_back(2 * total.variance);
  }
}

void add_term(Triangle& sum, Triangle& terms, Triangle& count, Triangle& variance, int i, int j, double term,
              double relative) {
  sum(i, j) += term;
  terms(i, j) += term * term;
  count(i, j) += 1;
  variance(i, j) += term * term * relative;
}

/// A, and q weights and QK, from groups and their readers.
void interactions(Builder& b) {
  const int reads = b.map.w.reads;
  ChunkForm& f = b.f;
  for (const auto& members : b.groups)
    for (std::size_t i = 1; i < members.size(); ++i)
      for (std::size_t j = 0; j < i; ++j) {
        const Member &x = members[i], &y = members[j];
        const double term = b.map.k(b.begin + x.token, x.entry) * b.map.k(b.begin + y.token, y.entry) *
                            std::exp(x.log.value - y.log.value);
        add_term(b.A, b.A_terms, b.A_count, b.A_var, x.token, y.token, term, pair_relative(x.log, y.log));
      }
  const auto& written = b.map.written[b.chunk];
  for (int t = 0; t < f.n; ++t)
    for (int m = 0; m < reads; ++m) {
      const std::int32_t row = b.map.q_row[(std::int64_t{b.begin} + t) * reads + m];
      const auto found = std::lower_bound(written.begin(), written.end(), row);
      const bool grouped = found != written.end() && *found == row;
      const int g = grouped ? static_cast<int>(found - written.begin()) : -1;
      const double q = b.map.q(b.begin + t, m);
      Log log;
      for (std::size_t j = 0; grouped && j < b.groups[g].size() && b.groups[g][j].token <= t; ++j)
        log = b.groups[g][j].log;
      for (std::size_t j = 0; grouped && j < b.groups[g].size() && b.groups[g][j].token <= t; ++j) {
        const Member& y = b.groups[g][j];
        const double term = q * b.map.k(b.begin + y.token, y.entry) * std::exp(log.value - y.log.value);
        add_term(f.QK, b.QK_terms, b.QK_count, f.QK_var, t, y.token, term, pair_relative(log, y.log));
      }
      f.q.push_back(weight(q, log));
      f.gather_q.push_back(gather_relative(b.map, f.q.back()));
      f.q_group.push_back(g);
    }
}

/// (5) roundings of a fold of `count` terms whose sum is S and whose squares sum to Q.
double fold(double count, double sum, double squares) { return count * kU2 * (sum * sum + squares); }

void solve(Builder& b) {
  ChunkForm& f = b.f;
  for (int i = 0; i < f.n; ++i) {
    const double beta = b.map.beta(b.begin + i);
    f.S(i, i) = f.S2(i, i) = 1;
    for (int k = 0; k < i; ++k) {
      const double L = beta * b.A(i, k);
      f.L_var(i, k) = beta * beta * (b.A_var(i, k) + fold(b.A_count(i, k), b.A(i, k), b.A_terms(i, k))) + kU2 * L * L;
      if (L == 0) continue;
      for (int c = 0; c <= k; ++c) {
        const double term = L * f.S(k, c);
        f.S(i, c) -= term;
        f.S_var(i, c) += term * term;
      }
    }
    for (int c = 0; c < i; ++c) {  // (6)
      f.S_var(i, c) = fold(i - c, f.S(i, c), f.S_var(i, c));
      f.S2(i, c) = f.S(i, c) * f.S(i, c);
    }
  }
}

void combine(Builder& b) {
  ChunkForm& f = b.f;
  for (int i = 0; i < f.n; ++i) {
    for (int k = 0; k <= i; ++k) {
      const double qk = f.QK(i, k);
      f.QK2(i, k) = qk * qk;
      f.QK_var(i, k) += fold(b.QK_count(i, k), qk, b.QK_terms(i, k));
      if (qk == 0) continue;
      for (int c = 0; c <= k; ++c) {
        const double term = qk * f.S(k, c);
        f.QS2(i, c) += term;  // squared below
        f.QB_var(i, c) += term * term;
      }
    }
    for (int c = 0; c <= i; ++c) {  // (10)
      const double qs = f.QS2(i, c), beta = b.map.beta(b.begin + c);
      f.QS2(i, c) = qs * qs;
      f.QB_var(i, c) = beta * beta * (fold(i - c + 3, qs, f.QB_var(i, c)) + fold(i + 3, qs, 0));
    }
  }
}

}  // namespace

std::vector<ChunkForm> make_chunk_forms(const StreamMap& map) {
  std::vector<ChunkForm> forms;
  for (int chunk = 0; chunk < map.w.steps(); ++chunk) {
    const int begin = map.chunk_begin(chunk), n = map.chunk_end(chunk) - begin;
    Builder b{map, chunk, begin};
    b.f.n = n;
    for (Triangle* x : {&b.f.S, &b.f.QK, &b.f.S2, &b.f.QK2, &b.f.QS2, &b.f.L_var, &b.f.S_var, &b.f.QK_var, &b.f.QB_var,
                        &b.A, &b.A_terms, &b.A_var, &b.A_count, &b.QK_terms, &b.QK_count})
      *x = Triangle(n);
    group_writes(b);
    write_weights(b);
    interactions(b);
    solve(b);
    combine(b);
    forms.push_back(std::move(b.f));
  }
  return forms;
}

}  // namespace sdm::oracle
