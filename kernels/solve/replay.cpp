#include "kernels/common/host.h"
#include "kernels/solve/solve.h"

namespace sdm::solve {

/// L[i][k] = beta_i*A[i][k]; S[i][c] = -(fold over k = c..i-1 of (L[i][k], S[k][c])); all c of a row at once.
void replay(const Params& p, Parallel& threads) {
  const int c = p.dims.chunk;
  threads.for_each(p.dims.chunks(), [&](std::int64_t chunk) {
    const float* a = p.a + chunk * c * c;
    float* s = p.s + chunk * c * c;
    std::vector<float> acc(static_cast<std::size_t>(c));
    for (int i = 0; i < c; ++i) {
      const float beta = p.beta[chunk * c + i];
      std::fill(acc.begin(), acc.end(), 0.0f);
      for (int k = 0; k < i; ++k) host::fold_row(beta * a[i * c + k], s + k * c, k + 1, acc.data());
      float* row = s + i * c;
      for (int j = 0; j < i; ++j) row[j] = canonical(-acc[static_cast<std::size_t>(j)]);
      row[i] = 1.0f;
    }
  });
}

}  // namespace sdm::solve
