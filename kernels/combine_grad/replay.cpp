#include "kernels/combine_grad/combine_grad.h"
#include "kernels/common/host.h"

namespace sdm::combine_grad {

void replay(const Params& p, Parallel& threads) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  threads.for_each(p.dims.chunks(), [&](std::int64_t chunk) {
    const std::int64_t at = chunk * c * d;
    host::triangular_rows<host::Triangle::transposed>(p.qk + chunk * c * c, p.d_reading + at, c, d, host::zero_start,
                                                      p.u + at);
    host::triangular_rows<host::Triangle::transposed>(p.s + chunk * c * c, p.u + at, c, d, host::zero_start,
                                                      p.base_dva + at);
  });
}

}  // namespace sdm::combine_grad
