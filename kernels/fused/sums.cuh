#pragma once
// What forward and backward share: rows of a step as a team's units, output tiles. Device code only.
#include "kernels/common/row_sum.cuh"
#include "kernels/common/triangular_grid.cuh"
#include "kernels/fused/team.cuh"

namespace sdm::fused {

/// Output tiles of mix and mix_grad: 4 outputs a thread, so that a small step's folds are short.
using MixTile = device::TileShape<32, 32, 64, 1>;
static_assert(MixTile::kThreads == kThreads);

/// The team's units of a step (row_plan.h), dealt out to blocks of a CTA.
struct TeamUnits {
  std::int32_t begin, stop, blocks;
  __device__ TeamUnits(const RowPlan& plan, const Team& team)
      : begin(team.first_stream * plan.chunk * plan.slices),
        stop((team.first_stream + team.streams) * plan.chunk * plan.slices),
        blocks((stop - begin + plan.units_per_cta() - 1) / plan.units_per_cta()) {}
  __device__ RowPlace place(const RowPlan& plan, int block) const {
    const int thread = static_cast<int>(threadIdx.x);
    return place_of_unit(plan, begin + block * plan.units_per_cta() + (thread >> plan.unit_bits), stop, thread);
  }
};

/// The entries of step 0, moved to `step`; those of the step to come are not prefetched.
__device__ __forceinline__ device::EntrySource source_at(const device::EntrySource& first, const Dims& dims, int step) {
  device::EntrySource source = first;
  const std::int64_t entry = std::int64_t{step} * dims.streams * dims.chunk * first.entries;
  source.index += entry * first.index_words;
  source.weight = static_cast<const char*>(first.weight) + entry * (first.bf16_weight ? 2 : 4);
  source.ahead = 0;
  return source;
}

}  // namespace sdm::fused
