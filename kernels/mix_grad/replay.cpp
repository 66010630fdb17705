#include "kernels/common/host.h"
#include "kernels/mix_grad/mix_grad.h"

namespace sdm::mix_grad {

void replay(const Params& p, Parallel& threads) {
  const int c = p.dims.chunk, d = p.dims.head_dim, blocks = host::column_blocks(d);
  threads.for_each(std::int64_t{p.dims.step_streams()} * blocks, [&](std::int64_t item) {
    const std::int64_t chunk = std::int64_t{p.step} * p.dims.streams + item / blocks;
    const std::int64_t at = chunk * c * d;
    const auto start = [base = p.base_dva + at, d](int i, int j) { return base[std::int64_t{i} * d + j]; };
    host::triangular_block<host::Triangle::transposed>(p.s + chunk * c * c, p.d_dv_w + at, c, d,
                                                       static_cast<int>(item % blocks), start, p.d_dva + at);
  });
}

}  // namespace sdm::mix_grad
