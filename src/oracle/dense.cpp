#include "oracle/dense.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace sdm::oracle {
namespace {

constexpr int kC = DenseWorkload::kChunk;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

struct IoFormat {
  int mantissa_bits, least_exponent;  ///< of normal values
  double most;
};
IoFormat format_of(DType io) {
  SDM_REQUIRE(io == DType::bf16 || io == DType::f16, "{} is no io dtype", name_of(io));
  return io == DType::bf16 ? IoFormat{7, -126, 0x1.fep127} : IoFormat{10, -14, 65504.0};
}

/// The number that 16 stored bits stand for.
double decode(std::uint16_t bits, const IoFormat& format) {
  const int field = (bits & 0x7fff) >> format.mantissa_bits, one = 1 << format.mantissa_bits;
  const int mantissa = bits & (one - 1);
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  if (field == 0x7fff >> format.mantissa_bits)
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * HUGE_VAL;
  const int exponent = std::max(field, 1) - 1 + format.least_exponent - format.mantissa_bits;
  return sign * std::ldexp(field ? one + mantissa : mantissa, exponent);
}

std::vector<double> rows_of(std::span<const std::uint16_t> array, DType io, std::int64_t first, std::int64_t stride,
                            int tokens, int width) {
  std::vector<double> rows(at(std::int64_t{tokens} * width));
  if (array.empty()) return {};
  const IoFormat format = format_of(io);
  for (int t = 0; t < tokens; ++t)
    for (int d = 0; d < width; ++d)
      rows[at(std::int64_t{t} * width + d)] = decode(array[at((first + t * stride) * width + d)], format);
  return rows;
}

}  // namespace

double io_spacing(double x, DType io) {
  const IoFormat format = format_of(io);
  const int exponent =
      x == 0 || !std::isfinite(x) ? format.least_exponent : std::max(std::ilogb(x), format.least_exponent);
  return std::ldexp(1.0, exponent - format.mantissa_bits);
}

double round_to_io(double x, DType io) {
  if (!std::isfinite(x)) return x;
  const double step = io_spacing(x, io), rounded = std::nearbyint(x / step) * step;
  return std::abs(rounded) > format_of(io).most ? std::copysign(std::numeric_limits<double>::infinity(), x) : rounded;
}

double accumulation_unit(bool tensor_cores) { return tensor_cores ? 0x1p-22 : 0x1p-24; }

DenseStream dense_stream(const DenseWorkload& workload, const DenseInputs& inputs, std::int64_t stream) {
  const int tokens = workload.tokens, key_dim = workload.key_dim, value_dim = workload.value_dim;
  const std::int64_t heads = workload.heads, first = stream / heads * tokens * heads + stream % heads;
  const DType io = workload.io_dtype;
  DenseStream s{.chunks = workload.chunks(), .key_dim = key_dim, .value_dim = value_dim, .io = io};
  s.w = rows_of(inputs.w, io, first, heads, tokens, key_dim);
  s.kg = rows_of(inputs.kg, io, first, heads, tokens, key_dim);
  s.u = rows_of(inputs.u, io, first, heads, tokens, value_dim);
  s.d_out = rows_of(inputs.d_out, io, first, heads, tokens, value_dim);
  for (int c = 0; c < s.chunks; ++c)
    for (int k = 0; k < key_dim; ++k)
      s.decay.push_back(
          std::exp2(double{inputs.g2[at((first + (std::int64_t{c} * kC + kC - 1) * heads) * key_dim + k)]}));
  const std::int64_t state = std::int64_t{key_dim} * value_dim;
  s.h0.resize(at(state));
  if (!inputs.h0.empty()) std::copy_n(inputs.h0.begin() + stream * state, state, s.h0.begin());
  return s;
}

DenseStates run_dense_oracle(const DenseStream& s) {
  const int key_dim = s.key_dim, value_dim = s.value_dim;
  DenseStates out;
  std::vector<double> h = s.h0, rounded(h.size()), x(at(value_dim));
  out.v_new.resize(s.u.size());
  if (!s.d_out.empty()) out.dq.resize(s.w.size());
  for (int c = 0; c < s.chunks; ++c) {
    std::transform(h.begin(), h.end(), rounded.begin(), [&](double value) { return round_to_io(value, s.io); });
    out.checkpoints.insert(out.checkpoints.end(), rounded.begin(), rounded.end());
    for (int k = 0; k < key_dim; ++k)
      for (int v = 0; v < value_dim; ++v) h[at(k * value_dim + v)] *= s.decay[at(c * key_dim + k)];
    for (int t = c * kC; t < (c + 1) * kC; ++t) {
      const double *w = &s.w[at(t * key_dim)], *kg = &s.kg[at(t * key_dim)];
      std::copy_n(&s.u[at(t * value_dim)], value_dim, x.begin());
      for (int k = 0; k < key_dim; ++k) {
        const double* row = &rounded[at(k * value_dim)];
        double query = 0;
        for (int v = 0; v < value_dim; ++v) x[at(v)] -= w[k] * row[v];
        if (s.d_out.empty()) continue;
        for (int v = 0; v < value_dim; ++v) query += s.d_out[at(t * value_dim + v)] * row[v];
        out.dq[at(t * key_dim + k)] = query;
      }
      for (double& value : x) value = round_to_io(value, s.io);
      std::copy(x.begin(), x.end(), &out.v_new[at(t * value_dim)]);
      for (int k = 0; k < key_dim; ++k)
        for (int v = 0; v < value_dim; ++v) h[at(k * value_dim + v)] += kg[k] * x[at(v)];
    }
  }
  out.final_state = std::move(h);
  return out;
}

DenseStates run_dense_tokens(const DenseWorkload& workload, std::span<const double> h0, std::int64_t stream) {
  const int key_dim = workload.key_dim, value_dim = workload.value_dim;
  DenseStates out;
  std::vector<double> h(h0.begin(), h0.end()), delta(at(value_dim));
  for (int c = 0; c < workload.chunks(); ++c) {
    out.checkpoints.insert(out.checkpoints.end(), h.begin(), h.end());
    const DenseTokens tokens = draw_dense_tokens(workload, stream, c);
    for (int t = 0; t < kC; ++t) {
      for (int v = 0; v < value_dim; ++v) delta[at(v)] = tokens.v[at(t * value_dim + v)];
      for (int k = 0; k < key_dim; ++k) {
        const double kept = std::exp2(double{tokens.decay[at(t * key_dim + k)]}), key = tokens.k[at(t * key_dim + k)];
        for (int v = 0; v < value_dim; ++v) {
          double& element = h[at(k * value_dim + v)];
          element *= kept;
          delta[at(v)] -= key * element;
        }
      }
      for (int k = 0; k < key_dim; ++k) {
        const double strength = double{tokens.beta[at(t)]} * tokens.k[at(t * key_dim + k)];
        for (int v = 0; v < value_dim; ++v) h[at(k * value_dim + v)] += strength * delta[at(v)];
      }
    }
  }
  out.final_state = std::move(h);
  return out;
}

}  // namespace sdm::oracle
