#include "kernels/combine/combine.h"
#include "kernels/common/host.h"

namespace sdm::combine {

void replay(const Params& p, Parallel& threads) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  threads.for_each(p.dims.chunks(), [&](std::int64_t chunk) {
    const float* s = p.s + chunk * c * c;
    const float* qk = p.qk + chunk * c * c;
    const float* beta = p.beta + chunk * c;
    const float* v = p.v + chunk * c * d;
    float* b = p.b + chunk * c * c;
    float* qb = p.qb + chunk * c * c;
    for (int i = 0; i < c; ++i)
      for (int k = 0; k <= i; ++k) b[i * c + k] = canonical(-(s[i * c + k] * beta[k]));
    for (int i = 0; i < c; ++i) {
      float* row = qb + i * c;
      std::fill(row, row + i + 1, 0.0f);
      for (int k = 0; k <= i; ++k) host::fold_row(qk[i * c + k], b + k * c, k + 1, row);
      for (int j = 0; j <= i; ++j) row[j] = canonical(row[j]);
    }
    std::vector<float> beta_v(static_cast<std::size_t>(c) * static_cast<std::size_t>(d));
    for (int i = 0; i < c; ++i)
      for (int j = 0; j < d; ++j)
        beta_v[static_cast<std::size_t>(i) * static_cast<std::size_t>(d) + static_cast<std::size_t>(j)] =
            beta[i] * v[std::int64_t{i} * d + j];
    float* base_dv = p.base_dv + chunk * c * d;
    host::triangular_rows<host::Triangle::lower>(s, beta_v.data(), c, d, host::zero_start, base_dv);
    host::triangular_rows<host::Triangle::lower>(qk, base_dv, c, d, host::zero_start, p.base_out + chunk * c * d);
  });
}

}  // namespace sdm::combine
