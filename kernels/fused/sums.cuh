#pragma once
// What forward and backward share: rows of a step as a team's units, prefetches, output tiles. Device code only.
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

/// The entries of step 0, moved to `step`; nothing is prefetched by them.
__device__ __forceinline__ device::EntrySource source_at(const device::EntrySource& first, const Dims& dims, int step) {
  device::EntrySource source = first;
  const std::int64_t entry = std::int64_t{step} * dims.streams * dims.chunk * first.entries;
  source.index += entry * first.index_words;
  source.weight = static_cast<const char*>(first.weight) + entry * (first.bf16_weight ? 2 : 4);
  source.ahead = 0;
  return source;
}

/// Asks L2 for the rows of the team's entries of `step`, one entry a thread and turn.
__device__ __forceinline__ void prefetch_step(const device::EntrySource& first, const void* bank, std::uint32_t bytes,
                                              const Dims& dims, const Team& team, int step) {
  const std::int64_t token = (std::int64_t{step} * dims.streams + team.first_stream) * dims.chunk;
  const int count = team.streams * dims.valid_tokens(step) * first.entries, of_stream = dims.chunk * first.entries;
  const int valid = dims.valid_tokens(step) * first.entries;
  for (int i = team.rank * kThreads + static_cast<int>(threadIdx.x); i < count; i += team.size * kThreads) {
    const int stream = i / valid;
    const std::int64_t entry = token * first.entries + std::int64_t{stream} * of_stream + (i - stream * valid);
    const std::int32_t row = first.index[entry * first.index_words];
    prefetch_rows_l2(static_cast<const char*>(bank) + std::int64_t{row} * bytes, bytes);
  }
}

}  // namespace sdm::fused
