#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/reduce/reduce.h"

namespace sdm::reduce {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kThreads = 256;
constexpr int kBatch = 4;   // entries a thread, a CTA apart: coalesced
constexpr int kPlanes = 4;  // planes whose loads are on their way together

/// grid: (chunk, part of its entries) x job. Reads every plane once, in slice order.
__global__ void __launch_bounds__(kThreads) planes_kernel(const __grid_constant__ Params p, int parts) {
  device::wait_for_previous_grid();
  const Job& job = p.jobs[blockIdx.y];
  if (job.count == 1) return;
  const std::int64_t chunk = blockIdx.x / static_cast<unsigned>(parts);
  const int part = static_cast<int>(blockIdx.x % static_cast<unsigned>(parts));
  const int n = p.dims.chunk * job.entries;
  const std::int64_t at = chunk * n, plane_size = p.dims.chunks() * n;
  const int first = part * kThreads * kBatch + static_cast<int>(threadIdx.x);
  float sum[kBatch] = {};
  for (int plane = 0; plane < job.count; plane += kPlanes) {
    float x[kPlanes][kBatch];
#pragma unroll
    for (int i = 0; i < kPlanes; ++i)
#pragma unroll
      for (int b = 0; b < kBatch; ++b) {
        const int e = first + b * kThreads;
        if (plane + i < job.count && e < n) x[i][b] = job.planes[(plane + i) * plane_size + at + e];
      }
#pragma unroll
    for (int i = 0; i < kPlanes; ++i)
#pragma unroll
      for (int b = 0; b < kBatch; ++b)
        if (plane + i < job.count) sum[b] = plane + i == 0 ? x[i][b] : sum[b] + x[i][b];
  }
#pragma unroll
  for (int b = 0; b < kBatch; ++b) {
    const int e = first + b * kThreads;
    if (e >= n) return;
    float factor = 1.0f;  // a product with 1 changes nothing
    if (job.factor == Factor::minus_beta) factor = -p.beta[chunk * p.dims.chunk + e / job.entries];
    if (job.factor == Factor::record_c) factor = p.undo_record[at + p.position[at + e]].c;
    job.sum[at + e] = factor * sum[b];
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

/// Parts of the longest job's chunk; 0 where every job is final already.
int parts_of(const Params& p) {
  int parts = 0;
  for (const Job& job : p.jobs)
    if (job.count > 1) {
      const int needed = device::ceil_div(p.dims.chunk * job.entries, kThreads * kBatch);
      parts = parts > needed ? parts : needed;
    }
  return parts;
}

device::LaunchShape shape_of(const Params& p) {
  return {dim3(static_cast<unsigned>(p.dims.chunks() * parts_of(p)), static_cast<unsigned>(p.jobs.size())), kThreads,
          0};
}

std::string refuse(const Params&, const Device&) { return ""; }

void launch(const Params& p, const LaunchContext& context) {
  if (parts_of(p) > 0) device::launch(planes_kernel, shape_of(p), context, p, parts_of(p));
}

std::string describe_launch(const Params& p, const LaunchContext&) {
  return parts_of(p) > 0 ? device::describe(shape_of(p)) : "nothing to do: one plane each";
}

}  // namespace

const Variant<Params> planes = {
    .name = "planes",
    .why = "any shape",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::reduce
