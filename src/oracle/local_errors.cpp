// Numbers (n) are equations of docs/oracle.md.
#include "oracle/local_errors.h"

namespace sdm::oracle {

namespace {

using Block = std::vector<double>;  // [n, columns]

enum class Transposed : bool { no, yes };

/// out += T x, or T^T x, for x and out [n, columns].
void accumulate(const Triangle& T, Transposed transposed, const Block& x, int columns, Block& out) {
  for (int i = 0; i < T.n; ++i)
    for (int k = 0; k <= i; ++k) {
      const double factor = T(i, k);
      if (factor == 0) continue;
      const int to = transposed == Transposed::yes ? k : i, from = transposed == Transposed::yes ? i : k;
      double* o = out.data() + std::int64_t{to} * columns;
      const double* in = x.data() + std::int64_t{from} * columns;
      for (int c = 0; c < columns; ++c) o[c] += factor * in[c];
    }
}

Block product(const Triangle& T, Transposed transposed, const Block& x, int columns) {
  Block out(x.size(), 0.0);
  accumulate(T, transposed, x, columns, out);
  return out;
}

Block squares(const Block& x) {
  Block out(x);
  for (double& value : out) value *= value;
  return out;
}

/// A sum of weighted rows per token, its squared terms, and the variance of its error (7).
struct Gathered {
  Block sum, variance;
};

template <typename Row>
Gathered gather(int n, int width, int columns, const std::vector<Weight>& weights, const std::vector<double>& relative,
                const Row& row_of) {
  Gathered out{Block(std::size_t(n) * columns, 0.0), Block(std::size_t(n) * columns, 0.0)};
  for (int t = 0; t < n; ++t) {
    double* sum = out.sum.data() + std::int64_t{t} * columns;
    double* variance = out.variance.data() + std::int64_t{t} * columns;
    for (int e = 0; e < width; ++e) {
      const std::size_t at = std::size_t(t) * width + e;
      const double* row = row_of(at);
      const double fold_share = relative[at] + width * kU2;
      for (int c = 0; c < columns; ++c) {
        const double term = weights[at].value * row[c];
        sum[c] += term;
        variance[c] += fold_share * term * term;
      }
    }
    for (int c = 0; c < columns; ++c) variance[c] += width * kU2 * sum[c] * sum[c];
  }
  return out;
}

Gathered gather_reads(const StreamMap& map, const ChunkForm& form, int chunk, const StreamState& s) {
  const std::int64_t first = std::int64_t{map.chunk_begin(chunk)} * map.w.reads;
  return gather(form.n, map.w.reads, s.columns, form.q, form.gather_q, [&](std::size_t at) {
    const int group = form.q_group[at];
    return group >= 0 ? s.before[chunk].data() + std::int64_t{group} * s.columns
                      : s.bank_row(map.q_row[first + std::int64_t(at)]);
  });
}

}  // namespace

ForwardErrors forward_errors(const StreamMap& map, const ChunkForm& form, int chunk, const StreamState& s) {
  const int n = form.n, columns = s.columns, begin = map.chunk_begin(chunk);
  const double nu = (n + 3) * kU2;  // folds over tokens of the chunk, and the roundings beside them
  const Gathered writes = gather(n, map.w.writes, columns, form.k, form.gather_k, [&](std::size_t at) {
    return s.before[chunk].data() + std::int64_t{form.k_group[at]} * columns;
  });
  const Gathered reads = gather_reads(map, form, chunk, s);
  Block bv(writes.sum.size()), x2(bv.size()), br2(bv.size()), delta2(bv.size());
  for (int t = 0; t < n; ++t)
    for (int c = 0; c < columns; ++c) {
      const std::size_t i = std::size_t(t) * columns + c;
      const double beta = map.beta(begin + t), delta = s.delta[std::size_t(begin) * columns + i];
      const double br = beta * writes.sum[i];
      bv[i] = beta * map.v(begin + t, s.first_column)[c];
      x2[i] = (bv[i] - br) * (bv[i] - br);
      br2[i] = br * br;
      delta2[i] = delta * delta;
    }
  // (8) residual of (I + L) delta = beta (v - retrieved)
  Block residual = product(form.L_var, Transposed::no, delta2, columns);
  accumulate(form.S_var, Transposed::no, x2, columns, residual);
  for (std::size_t i = 0; i < residual.size(); ++i) {
    const double beta = map.beta(begin + int(i / columns));
    residual[i] += beta * beta * writes.variance[i];
  }
  const Block base = product(form.S, Transposed::no, bv, columns), base2 = squares(base);
  const Block base_terms = product(form.S2, Transposed::no, squares(bv), columns);
  const Block mix_terms = product(form.S2, Transposed::no, br2, columns);
  ForwardErrors out;
  // (9)
  out.delta = product(form.S2, Transposed::no, residual, columns);
  for (std::size_t i = 0; i < out.delta.size(); ++i)
    out.delta[i] += nu * (delta2[i] + 2 * base2[i] + base_terms[i] + mix_terms[i]);
  // (11)
  const Block retrieved2 = squares(writes.sum), base_out = product(form.QK, Transposed::no, base, columns);
  out.reading = product(form.QS2, Transposed::no, residual, columns);
  accumulate(form.QK_var, Transposed::no, delta2, columns, out.reading);
  accumulate(form.QB_var, Transposed::no, retrieved2, columns, out.reading);
  Block base_share(base2.size());
  for (std::size_t i = 0; i < base_share.size(); ++i) base_share[i] = nu * (2 * base2[i] + base_terms[i]);
  accumulate(form.QK2, Transposed::no, base_share, columns, out.reading);
  for (std::size_t i = 0; i < out.reading.size(); ++i) {
    const double reading = s.reading[std::size_t(begin) * columns + i];
    out.reading[i] +=
        reads.variance[i] + nu * (reading * reading + reads.sum[i] * reads.sum[i]) + 2 * nu * base_out[i] * base_out[i];
  }
  out.retrieved = writes.variance;
  out.retrieved0 = retrieved2;
  return out;
}

std::vector<double> backward_errors(const StreamMap& map, const ChunkForm& form, int chunk, const StreamState& s) {
  const int n = form.n, columns = s.columns, begin = map.chunk_begin(chunk);
  const double nu = (n + 3) * kU2;
  std::vector<double> relative;
  for (const Weight& weight : form.write) relative.push_back(weight.relative);
  const Gathered w = gather(n, map.w.writes, columns, form.write, relative, [&](std::size_t at) {
    return s.grad_in.data() + std::int64_t{form.k_group[at]} * columns;
  });
  Block gr(w.sum.size());
  for (std::size_t i = 0; i < gr.size(); ++i)
    gr[i] = map.d_reading(begin + int(i / columns), s.first_column)[i % columns];
  const Block gr2 = squares(gr), a2 = squares({s.d_delta.begin(), s.d_delta.begin() + std::int64_t(gr.size())});
  const Block U = product(form.QK, Transposed::yes, gr, columns), U2 = squares(U);
  // (12) residual of (I + L^T) d_delta = U + d_dv_w
  Block residual = product(form.L_var, Transposed::yes, a2, columns);
  accumulate(form.QK_var, Transposed::yes, gr2, columns, residual);
  const Block U_terms = product(form.QK2, Transposed::yes, gr2, columns);
  for (std::size_t i = 0; i < residual.size(); ++i) residual[i] += w.variance[i] + nu * (U2[i] + U_terms[i]);
  // (13)
  Block out = product(form.S2, Transposed::yes, residual, columns);
  accumulate(form.S_var, Transposed::yes, a2, columns, out);
  const Block base2 = squares(product(form.S, Transposed::yes, U, columns));
  Block terms = product(form.S2, Transposed::yes, U2, columns);
  accumulate(form.S2, Transposed::yes, squares(w.sum), columns, terms);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] += nu * (a2[i] + 2 * base2[i] + terms[i]);
  return out;
}

}  // namespace sdm::oracle
