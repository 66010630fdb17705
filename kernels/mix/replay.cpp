#include "kernels/common/host.h"
#include "kernels/mix/mix.h"

namespace sdm::mix {

void replay(const Params& p, Parallel& threads) {
  const int c = p.dims.chunk, d = p.dims.head_dim, blocks = host::column_blocks(d);
  threads.for_each(std::int64_t{p.dims.step_streams()} * blocks, [&](std::int64_t item) {
    const std::int64_t chunk = std::int64_t{p.step} * p.dims.streams + item / blocks;
    const int block = static_cast<int>(item % blocks);
    const std::int64_t at = chunk * c * d;
    const float* retrieved = p.retrieved + at;
    const auto dv_start = [base = p.base_dv + at, d](int i, int j) { return base[std::int64_t{i} * d + j]; };
    const auto out_start = [inter = p.inter + at, base = p.base_out + at, d](int i, int j) {
      return inter[std::int64_t{i} * d + j] + base[std::int64_t{i} * d + j];
    };
    host::triangular_block<host::Triangle::lower>(p.b + chunk * c * c, retrieved, c, d, block, dv_start,
                                                  p.delta_v + at);
    host::triangular_block<host::Triangle::lower>(p.qb + chunk * c * c, retrieved, c, d, block, out_start,
                                                  p.reading + at);
  });
}

}  // namespace sdm::mix
