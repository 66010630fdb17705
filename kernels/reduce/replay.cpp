#include "kernels/common/host.h"
#include "kernels/reduce/reduce.h"

namespace sdm::reduce {

void replay(const Params& p, Parallel& threads) {
  for (const Job& job : p.jobs) {
    if (job.count == 1) continue;
    const std::int64_t size = p.dims.chunks() * p.dims.chunk * job.entries;
    threads.for_ranges(size, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t e = begin; e < end; ++e) {
        float sum = job.planes[e];
        for (int plane = 1; plane < job.count; ++plane) sum = sum + job.planes[plane * size + e];
        if (job.factor == Factor::minus_beta) sum = (-p.beta[e / job.entries]) * sum;
        if (job.factor == Factor::record_c) {
          const std::int64_t n = p.dims.write_positions();
          sum = p.undo_record[e / n * n + p.position[e]].c * sum;
        }
        job.sum[e] = canonical(sum);
      }
    });
  }
}

}  // namespace sdm::reduce
