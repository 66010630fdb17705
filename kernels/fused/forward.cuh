#pragma once
// The persistent kernel of the forward: per step gather, mix, write. Device code only.
#include "kernels/fused/sums.cuh"
#include "kernels/gather/row_gather.cuh"
#include "kernels/write/groups.cuh"

namespace sdm::fused {

struct ForwardArgs {
  Dims dims;
  TeamShape team;
  std::uint32_t* counters;
  gather::device_rows::Args gather;  ///< of step 0
  mix::Params mix;
  write::Params write;
  WriteCut cut;
  bool engine;  ///< token rows are brought by the copy engine
};

enum ForwardPhase : int { kGatherWrites, kGatherReads, kMix, kWrite };

/// What a kernel is built for. kColumns: of a CTA of write, 64 or 128 of one row, and with them how many rows of a part
/// gather has in flight (rows of up to 64 columns have 8 lanes, which hold 8 entries at a time).
template <typename T_, int kColumns_, write::Save kSave_, bool kStash_>
struct ForwardForm {
  using T = T_;
  static constexpr int kColumns = kColumns_, kDepth = kColumns_ == 64 ? 8 : 16;
  static constexpr write::Save kSave = kSave_;
  static constexpr bool kStash = kStash_;
  using Shape = write::RowShape<T, kColumns / device::kVec<T>, true>;
};

/// Who gathers: the rows of the writes are what the chain waits for, so some CTAs take these and the others the rows of
/// the reads, which the reading alone needs.
struct Roles {
  int writers;  ///< CTAs [0, writers) gather for the writes, the others for the reads; a lone CTA does both
  __device__ Roles(const Dims& dims, const Team& team)
      : writers(
            team.size == 1
                ? 1
                : min(max((team.size * dims.writes + (dims.writes + dims.reads) / 2) / (dims.writes + dims.reads), 1),
                      team.size - 1)) {}
  __device__ int readers(const Team& team) const { return team.size == 1 ? 1 : team.size - writers; }
};

/// gather::device_rows::gather_rows for the team's units of one operand of one step, dealt out to `ctas` CTAs of which
/// this is number `rank`.
template <typename F>
__device__ __forceinline__ void gather_operand(const ForwardArgs& a, const Team& team, int step, int operand, int rank,
                                               int ctas, float* parts, WaitOnce& wait) {
  using Row = device::RowVector<typename F::T, true>;
  const gather::device_rows::Args& g = a.gather;
  RowPlan plan = g.plan;
  plan.valid_tokens = a.dims.valid_tokens(step);
  const TeamUnits units(plan, team);
  const std::int64_t first_token = std::int64_t{step} * a.dims.streams * a.dims.chunk;
  device::StashTarget stash;
  if constexpr (F::kStash)
    stash = device::stash_at(g.stash, step, a.dims.streams, std::int64_t{plan.head_dim} * sizeof(typename F::T));
  const device::EntrySource source = source_at(g.source[operand], a.dims, step);
  float* out = g.out[operand] + first_token * plan.head_dim;
  const std::uint64_t policy = device::policy_of(g.stay[operand]);
  for (int block = rank; block < units.blocks; block += ctas) {
    if (block != rank) __syncthreads();  // the parts of the block before have been added up
    const RowPlace at = units.place(plan, block);
    const device::RowColumns columns = device::columns_of<typename F::T>(g.bank, plan, at);
    device::StashVisitor<Row, F::kStash> visitor{
        stash,       plan, at, columns, stash.rows + at.column * static_cast<std::int64_t>(sizeof(typename F::T)),
        operand == 0};
    for (int first = 0; first < plan.groups(); first += plan.parallel()) {
      float acc[Row::kElements] = {};
      device::fold_part<Row, F::kDepth, write::is_quantized(F::kSave)>(plan, at, source, first + at.part, columns,
                                                                       policy, visitor, acc, wait);
      device::finish_part(plan, at, first + at.part, parts, out, acc);
    }
    device::total_parts<Row::kElements>(plan, at, parts, out);
  }
}

template <typename F>
__device__ __forceinline__ void gather_phase(const ForwardArgs& a, const Team& team, const Roles& roles, int step,
                                             float* parts) {
  const bool both = team.size == 1;
  const int first = team.rank < roles.writers ? 0 : 1;
  WaitOnce wait{team, kWrite, team.size * step};
  for (int operand = first; operand < (both ? 2 : first + 1); ++operand) {
    const int ctas = operand == 0 ? roles.writers : roles.readers(team);
    const int rank = operand == 0 || both ? team.rank : team.rank - roles.writers;
    gather_operand<F>(a, team, step, operand, rank, ctas, parts, wait);
    team.arrive(operand == 0 ? kGatherWrites : kGatherReads);
  }
  wait();  // also without a unit: write_range relies on it
}

/// Output tiles of one of mix's products over the team's streams.
__device__ __forceinline__ int mix_tiles(const Dims& dims, const Team& team) {
  return (dims.chunk + MixTile::kRows - 1) / MixTile::kRows *
         ((dims.head_dim + MixTile::kColumns - 1) / MixTile::kColumns) * team.streams;
}

/// mix::mix_kernel's tiles of one product: delta_v or reading. `rank`: which of the team's CTAs this one is for the
/// deal.
template <bool kReading>
__device__ __forceinline__ void mix_product(const ForwardArgs& a, const Team& team, int step, int rank, void* shared,
                                            WaitOnce wait) {
  using device::Triangle;
  auto& memory = *static_cast<device::TileMemory<MixTile, Triangle::lower, 1>*>(shared);
  const mix::Params& p = a.mix;
  const int c = a.dims.chunk, d = a.dims.head_dim;
  for (int tile = rank; tile < mix_tiles(a.dims, team); tile += team.size) {
    if (tile != rank) __syncthreads();  // the tile before has been read
    const auto item = device::tile_item<MixTile, Triangle::lower>(team.streams, 1, c, d, static_cast<unsigned>(tile));
    const std::int64_t chunk = std::int64_t{step} * a.dims.streams + team.first_stream + item.chunk, at = chunk * c * d;
    const device::TilePlace place{c, item.i0, item.d0, 0};
    const device::Rows<true> factor[1] = {{(kReading ? p.qb : p.b) + chunk * c * c, c, c}};
    const device::Rows<true> retrieved{p.retrieved + at, c, d}, inter{p.inter + at, c, d};
    const device::Rows<true> base{(kReading ? p.base_out : p.base_dv) + at, c, d};
    float acc[1][MixTile::kThreadRows][4];
    float4 old[MixTile::kThreadRows];  // before the wait: base_dv and base_out were made before the first step
    device::for_outputs<MixTile, Triangle::lower>(place,
                                                  [&](int r, int i, int column) { old[r] = base.load(i, column); });
    const auto start = [&](auto& first) {
      device::clear(first);
      device::for_outputs<MixTile, Triangle::lower>(place, [&](int r, int i, int column) {
        float4 x = old[r];
        if constexpr (kReading) {
          const float4 y = inter.load(i, column);
          x = make_float4(y.x + x.x, y.y + x.y, y.z + x.z, y.w + x.w);
        }
        device::unpack(x, first[0][r]);
      });
    };
    device::triangular_tile<MixTile, Triangle::lower, 1>(memory, factor, retrieved, place, wait, start, acc);
    device::for_outputs<MixTile, Triangle::lower>(place, [&](int r, int i, int column) {
      float* out = kReading ? p.reading : p.delta_v;
      device::store_row<true>(out + at + static_cast<std::int64_t>(i) * d, column, d, acc[0][r]);
    });
  }
}

/// One range of one column block of one stream: what a CTA of write::walk does. Base rows are asked for before the
/// wait: gather_phase has waited for the write before, and none of this one's stores precede the wait.
template <typename F>
__device__ __forceinline__ void write_range(const ForwardArgs& a, std::int64_t chunk, int block_column, int range,
                                            float* tokens, device::RowStage& stage, WaitOnce& wait) {
  using S = typename F::Shape;
  using Batch = write::GroupBatch<S, F::kSave, kWritePart, write::NoExchange, false>;
  const Dims& d = a.dims;
  const write::Params& p = a.write;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int n = d.write_positions(), valid_tokens = d.valid_tokens_of_chunk(chunk), valid = valid_tokens * d.writes;
  const write::ChunkRecords records{p.record + chunk * n, p.window + chunk * window_count(n), valid, a.cut.unit_shift};
  const int begin = range * a.cut.units_per_range;
  const int stop = min(((valid + 31) / 32) << a.cut.unit_shift, begin + a.cut.units_per_range);
  const auto start = [&] {
    wait();
    stage.start<true, true>(write::token_block<S>(tokens, p.delta_v + chunk * d.chunk * d.head_dim, valid_tokens,
                                                  d.head_dim, block_column));
  };
  bool staged = false;
  const auto ready = [&] {
    if (!staged) stage.wait<true>();
    staged = true;
  };
  Batch batch;
  write::walk_units(
      write::lane_view<S, F::kSave>(p, chunk, block_column, tokens), records, begin + warp, stop,
      [](int unit) { return unit + kWarps; }, batch, start, ready);
}

template <typename F>
__device__ __forceinline__ void write_phase(const ForwardArgs& a, const Team& team, int step, float* tokens,
                                            device::RowStage& stage, WaitOnce wait) {
  const std::int64_t first_chunk = std::int64_t{step} * a.dims.streams + team.first_stream;
  const int items = team.streams * a.cut.blocks * a.cut.ranges;
  for (int item = team.rank; item < items; item += team.size) {
    if (item != team.rank) __syncthreads();  // the token rows of the item before have been read
    const int range = item % a.cut.ranges, owner = item / a.cut.ranges;
    write_range<F>(a, first_chunk + owner / a.cut.blocks, owner % a.cut.blocks * F::kColumns, range, tokens, stage,
                   wait);
  }
  wait();  // also without an item: Team's counters rely on it
}

template <typename F>
__global__ void __launch_bounds__(kThreads, kCtasPerMultiprocessor)
    forward_kernel(const __grid_constant__ ForwardArgs a) {
  extern __shared__ uint4 memory[];
  uint4* const shared = memory + 1;  // past the barrier of the stage
  auto* floats = reinterpret_cast<float*>(shared);
  device::RowStage stage(reinterpret_cast<std::uint64_t*>(memory), a.engine);
  const Team team(a.team, a.dims.streams, a.counters);
  const Roles roles(a.dims, team);
  const int tiles = mix_tiles(a.dims, team), mixers = min(tiles, team.size);
  for (int step = 0; step < a.dims.steps; ++step) {
    gather_phase<F>(a, team, roles, step, floats);
    if (team.rank < mixers) {
      mix_product<false>(a, team, step, team.rank, shared, WaitOnce{team, kGatherWrites, roles.writers * (step + 1)});
      team.arrive(kMix);
    }
    write_phase<F>(a, team, step, floats, stage,
                   WaitOnce{team, kMix, mixers * (step + 1), kGatherReads, roles.readers(team) * (step + 1)});
    team.arrive(kWrite);
    // Nothing waits for the reading: the last CTAs make it while the first ones gather for the next step's writes. What
    // it reads became visible with the waits before write.
    mix_product<true>(a, team, step, team.size - 1 - team.rank, shared, WaitOnce::nothing(team));
    __syncthreads();  // the tile has been read, its memory is free
  }
}

}  // namespace sdm::fused
