#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "oracle/bounds.h"
#include "oracle/dense.h"

namespace sdm::oracle {
namespace {

constexpr int kTokens = DenseWorkload::kChunk;

std::size_t spot(std::int64_t i) { return static_cast<std::size_t>(i); }
double square(double x) { return x * x; }

/// Variance of a sum of `terms` terms in any order (docs/oracle.md, (5)).
double fold_variance(double unit, int terms, double sum, double squares) {
  return terms * square(unit) * (square(sum) + squares);
}

/// Collects elements: the worst ratio and the first failure.
class Judge {
 public:
  /// An element that must be within `bound` of `expected` before its rounding; `spacing`: of the format it was rounded
  /// to, 0 for fp32 outputs. `element(text)` names it.
  void element(std::string_view output, std::int64_t index, std::int64_t width, double actual, double expected,
               double sigma, double spacing) {
    const double bound = kSafety * sigma + kTiny;
    const double error = std::isfinite(actual) ? std::max(0.0, std::abs(actual - expected) - spacing / 2)
                                               : (actual == expected ? 0.0 : HUGE_VAL);
    verdict_.worst_ratio = std::max(verdict_.worst_ratio, error / bound);
    if (error <= bound || !verdict_.failure.empty()) return;
    verdict_.failure = fmt::format(
        "{}[{}, {}] is {:.9g}, the oracle has {:.9g}; the error may be {:.3g} (and half of {:.3g} by rounding)", output,
        index / width, index % width, actual, expected, bound, spacing);
  }
  DenseVerdict take() { return std::move(verdict_); }

 private:
  DenseVerdict verdict_;
};

/// v_new and dq of one chunk from the checkpoint that `actual` has.
void judge_products(const DenseStream& s, const DenseStates& actual, double unit, int chunk, Judge& judge) {
  const int key_dim = s.key_dim, value_dim = s.value_dim;
  const double* state = &actual.checkpoints[spot(std::int64_t{chunk} * key_dim * value_dim)];
  std::vector<double> sum(spot(value_dim)), squares(spot(value_dim));
  for (int t = chunk * kTokens; t < (chunk + 1) * kTokens; ++t) {
    std::fill(sum.begin(), sum.end(), 0.0), std::fill(squares.begin(), squares.end(), 0.0);
    const double* d_out = s.d_out.empty() || actual.dq.empty() ? nullptr : &s.d_out[spot(std::int64_t{t} * value_dim)];
    for (int k = 0; k < key_dim; ++k) {
      const double w = s.w[spot(std::int64_t{t} * key_dim + k)], *row = state + std::int64_t{k} * value_dim;
      double query = 0, query_squares = 0;
      for (int v = 0; v < value_dim; ++v) {
        const double term = w * row[v];
        sum[spot(v)] += term, squares[spot(v)] += square(term);
      }
      if (!d_out) continue;
      for (int v = 0; v < value_dim; ++v) query += d_out[v] * row[v], query_squares += square(d_out[v] * row[v]);
      const std::int64_t i = std::int64_t{t} * key_dim + k;
      judge.element("dq", i, key_dim, actual.dq[spot(i)], query,
                    std::sqrt(fold_variance(unit, value_dim, query, query_squares)), 0);
    }
    for (int v = 0; v < value_dim; ++v) {
      const std::int64_t i = std::int64_t{t} * value_dim + v;
      const double x = s.u[spot(i)] - sum[spot(v)];
      const double variance = fold_variance(unit, key_dim, sum[spot(v)], squares[spot(v)]) + square(unit * x);
      judge.element("v_new", i, value_dim, actual.v_new[spot(i)], x, std::sqrt(variance),
                    io_spacing(actual.v_new[spot(i)], s.io));
    }
  }
}

/// M = kg^T w of one chunk, [K, K].
std::vector<double> transition(const DenseStream& s, int chunk) {
  const int n = s.key_dim;
  std::vector<double> m(spot(std::int64_t{n} * n));
  for (int t = chunk * kTokens; t < (chunk + 1) * kTokens; ++t)
    for (int k = 0; k < n; ++k)
      for (int j = 0; j < n; ++j)
        m[spot(k * n + j)] += s.kg[spot(std::int64_t{t} * n + k)] * s.w[spot(std::int64_t{t} * n + j)];
  return m;
}

/// Variances of a free run: of the state, and of what rounding puts on top of it.
struct Drift {
  const DenseStream& s;
  DriftSource source;
  std::vector<double> state;  ///< [K, V]

  /// Of one rounding of x to io: a flip is a whole spacing, a rounding that only one side makes half of one.
  double rounding(double x) const { return square(io_spacing(x, s.io) * (source == DriftSource::flips ? 1.0 : 0.5)); }
  double rounded_input(double x) const { return source == DriftSource::flips ? 0.0 : square(io_spacing(x, s.io) / 2); }

  /// [64, V] variance of v_new without what the state's own error puts in; `h`: the checkpoint.
  std::vector<double> value_noise(int chunk, const double* h, const double* v_new) const {
    std::vector<double> noise(spot(kTokens * s.value_dim));
    for (int t = 0; t < kTokens; ++t)
      for (int v = 0; v < s.value_dim; ++v) {
        const std::int64_t i = (std::int64_t{chunk} * kTokens + t) * s.value_dim + v;
        double sum = rounding(v_new[t * s.value_dim + v]) + rounded_input(s.u[spot(i)]);
        for (int k = 0; k < s.key_dim; ++k)
          sum += rounded_input(s.w[spot((chunk * kTokens + t) * s.key_dim + k)]) * square(h[k * s.value_dim + v]);
        noise[spot(t * s.value_dim + v)] = sum;
      }
    return noise;
  }

  /// The state's variance one chunk on: what is there goes through the chunk's whole map, diag(decay) - M; what
  /// rounding the state adds goes through M, what rounding v_new adds through kg.
  void step(int chunk, const double* h, const double* v_new) {
    const int n = s.key_dim, width = s.value_dim;
    const std::vector<double> m = transition(s, chunk), noise = value_noise(chunk, h, v_new);
    std::vector<double> next(state.size());
    for (int k = 0; k < n; ++k)
      for (int j = 0; j < n; ++j) {
        const double through_m = square(m[spot(k * n + j)]);
        const double through_map = square((k == j ? s.decay[spot(chunk * n + k)] : 0.0) - m[spot(k * n + j)]);
        for (int v = 0; v < width; ++v)
          next[spot(k * width + v)] +=
              through_map * state[spot(j * width + v)] + through_m * rounding(h[j * width + v]);
      }
    for (int t = 0; t < kTokens; ++t)
      for (int k = 0; k < n; ++k) {
        const double kg = s.kg[spot((chunk * kTokens + t) * n + k)], input = rounded_input(kg);
        for (int v = 0; v < width; ++v)
          next[spot(k * width + v)] += square(kg) * noise[spot(t * width + v)] + input * square(v_new[t * width + v]);
      }
    state = std::move(next);
  }
};

/// sum over j of factor[j]^2 * variance[j*width + v], for row t of a product with the state.
double through(const double* factor, const std::vector<double>& variance, int count, int stride, int offset) {
  double sum = 0;
  for (int j = 0; j < count; ++j) sum += square(factor[j]) * variance[spot(std::int64_t{j} * stride + offset)];
  return sum;
}

void judge_drift_chunk(const DenseStream& s, const DenseStates& actual, const DenseStates& expected, const Drift& drift,
                       int chunk, Judge& judge) {
  const int key_dim = s.key_dim, value_dim = s.value_dim;
  const std::int64_t first = std::int64_t{chunk} * key_dim * value_dim;
  const double* h = &actual.checkpoints[spot(first)];
  std::vector<double> variance = drift.state;
  for (std::size_t i = 0; i < variance.size(); ++i) {
    variance[i] += drift.rounding(h[i]);
    judge.element("checkpoints", first + static_cast<std::int64_t>(i), value_dim, h[i],
                  expected.checkpoints[spot(first) + i], std::sqrt(variance[i]), 0);
  }
  for (int t = chunk * kTokens; t < (chunk + 1) * kTokens; ++t) {
    for (int v = 0; v < value_dim && !expected.v_new.empty(); ++v) {
      const std::int64_t i = std::int64_t{t} * value_dim + v;
      const double sigma2 = through(&s.w[spot(std::int64_t{t} * key_dim)], variance, key_dim, value_dim, v) +
                            drift.rounding(actual.v_new[spot(i)]);
      judge.element("v_new", i, value_dim, actual.v_new[spot(i)], expected.v_new[spot(i)], std::sqrt(sigma2), 0);
    }
    for (int k = 0; k < key_dim && !expected.dq.empty() && !actual.dq.empty(); ++k) {
      const std::int64_t i = std::int64_t{t} * key_dim + k;
      const double sigma2 = through(&s.d_out[spot(std::int64_t{t} * value_dim)], variance, value_dim, 1, k * value_dim);
      judge.element("dq", i, key_dim, actual.dq[spot(i)], expected.dq[spot(i)], std::sqrt(sigma2), 0);
    }
  }
}

}  // namespace

DenseVerdict judge_dense_steps(const DenseStream& s, const DenseStates& actual, double unit) {
  const int key_dim = s.key_dim, value_dim = s.value_dim;
  Judge judge;
  std::vector<double> h = s.h0, variance(h.size());
  for (int c = 0; c < s.chunks; ++c) {
    const std::int64_t first = std::int64_t{c} * key_dim * value_dim;
    for (std::size_t i = 0; i < h.size(); ++i) {
      const double stored = actual.checkpoints[spot(first) + i];
      judge.element("checkpoints", first + static_cast<std::int64_t>(i), value_dim, stored, h[i],
                    std::sqrt(variance[i]), io_spacing(stored, s.io));
    }
    judge_products(s, actual, unit, c, judge);
    std::vector<double> squares(h.size());
    for (std::size_t i = 0; i < h.size(); ++i) {
      const double decay = s.decay[spot(c * key_dim) + i / spot(value_dim)];
      h[i] *= decay;
      squares[i] = square(h[i]);
      variance[i] = square(decay) * variance[i] + square(2 * 0x1p-24 * h[i]);  // 2^gd is off by at most one ulp
    }
    for (int t = c * kTokens; t < (c + 1) * kTokens; ++t)
      for (int k = 0; k < key_dim; ++k)
        for (int v = 0; v < value_dim; ++v) {
          const double term =
              s.kg[spot(std::int64_t{t} * key_dim + k)] * actual.v_new[spot(std::int64_t{t} * value_dim + v)];
          h[spot(k * value_dim + v)] += term, squares[spot(k * value_dim + v)] += square(term);
        }
    for (std::size_t i = 0; i < h.size(); ++i) variance[i] += fold_variance(unit, kTokens + 1, h[i], squares[i]);
  }
  for (std::size_t i = 0; i < actual.final_state.size(); ++i)
    judge.element("final_state", static_cast<std::int64_t>(i), value_dim, actual.final_state[i], h[i],
                  std::sqrt(variance[i]), 0);
  return judge.take();
}

DenseVerdict judge_dense_drift(const DenseStream& s, const DenseStates& actual, const DenseStates& expected,
                               DriftSource source) {
  Judge judge;
  Drift drift{s, source, std::vector<double>(s.h0.size())};
  for (int c = 0; c < s.chunks; ++c) {
    judge_drift_chunk(s, actual, expected, drift, c, judge);
    drift.step(c, &actual.checkpoints[spot(std::int64_t{c} * s.key_dim * s.value_dim)],
               &actual.v_new[spot(std::int64_t{c} * kTokens * s.value_dim)]);
  }
  for (std::size_t i = 0; i < actual.final_state.size() && !expected.final_state.empty(); ++i)
    judge.element("final_state", static_cast<std::int64_t>(i), s.value_dim, actual.final_state[i],
                  expected.final_state[i], std::sqrt(drift.state[i]), 0);
  return judge.take();
}

}  // namespace sdm::oracle
