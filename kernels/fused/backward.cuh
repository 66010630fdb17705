#pragma once
// The persistent kernel of the backward: per step, the last first, gather_grad, mix_grad, undo, read_grad. Device code
// only.
#include "kernels/fused/sums.cuh"
#include "kernels/gather_grad/row_grad.cuh"
#include "kernels/read_grad/lanes.cuh"
#include "kernels/undo/lanes.cuh"

namespace sdm::fused {

struct BackwardArgs {
  Dims dims;
  TeamShape team;
  std::uint32_t* counters;
  gather_grad::device_rows::Args gather_grad;  ///< of step 0
  mix_grad::Params mix_grad;
  undo::Params undo;
  read_grad::Params read_grad;
  WalkShape undo_walk, read_walk;
};

enum BackwardPhase : int { kGatherGrad, kMixGrad, kUndo, kReadGrad };

template <typename G_, typename B_, undo::RowCode kCode_>
struct BackwardForm {
  using G = G_;
  using B = B_;
  static constexpr undo::RowCode kCode = kCode_;
  static constexpr int kUndoBytes = undo::kUndoSlotBytes<G, kCode, B>;
  static constexpr int kReadBytes = read_grad::kReadSlotBytes<G, B, true>;
};

/// gather_grad::device_rows::gather_grad_rows for the team's units of one step.
template <typename F>
__device__ __forceinline__ void gather_grad_phase(const BackwardArgs& a, const Team& team, int step, float* parts,
                                                  WaitOnce wait) {
  using Row = device::RowVector<typename F::G, true>;
  const gather_grad::device_rows::Args& g = a.gather_grad;
  RowPlan plan = g.plan;
  plan.valid_tokens = a.dims.valid_tokens(step);
  const TeamUnits units(plan, team);
  const std::int64_t first_token = std::int64_t{step} * a.dims.streams * a.dims.chunk;
  const device::EntrySource source = source_at(g.source, a.dims, step);
  float* out = g.d_dv_w + first_token * plan.head_dim;
  for (int block = team.rank; block < units.blocks; block += team.size) {
    if (block != team.rank) __syncthreads();  // the parts of the block before have been added up
    const RowPlace at = units.place(plan, block);
    const device::RowColumns columns = device::columns_of<typename F::G>(g.grad, plan, at);
    gather_grad::device_rows::DotVisitor<Row> visitor{plan,
                                                      at,
                                                      g.d_ww + first_token * source.entries + at.slice * g.plane_size +
                                                          device::wide_product(at.token, source.entries),
                                                      source.entries,
                                                      {},
                                                      {}};
    gather_grad::device_rows::take_columns(g.delta_v + (first_token + at.token) * plan.head_dim + at.column,
                                           at.valid && columns.inside, visitor.x);
    for (int first = 0; first < plan.groups(); first += plan.parallel()) {
      float acc[Row::kElements] = {};
      device::fold_part<Row, 8>(plan, at, source, first + at.part, columns, device::policy_of(kGradientStay), visitor,
                                acc, wait);
      device::finish_part(plan, at, first + at.part, parts, out, acc);
    }
    device::total_parts<Row::kElements>(plan, at, parts, out);
  }
}

/// mix_grad::mix_grad_kernel's tiles.
__device__ __forceinline__ void mix_grad_phase(const BackwardArgs& a, const Team& team, int step, void* shared,
                                               WaitOnce wait) {
  using device::Triangle;
  auto& memory = *static_cast<device::TileMemory<MixTile, Triangle::transposed, 1>*>(shared);
  const mix_grad::Params& p = a.mix_grad;
  const int c = a.dims.chunk, d = a.dims.head_dim;
  const int row_tiles = (c + MixTile::kRows - 1) / MixTile::kRows;
  const int column_tiles = (d + MixTile::kColumns - 1) / MixTile::kColumns;
  for (int tile = team.rank; tile < row_tiles * column_tiles * team.streams; tile += team.size) {
    if (tile != team.rank) __syncthreads();  // the tile before has been read
    const auto item =
        device::tile_item<MixTile, Triangle::transposed>(team.streams, 1, c, d, static_cast<unsigned>(tile));
    const std::int64_t chunk = std::int64_t{step} * a.dims.streams + team.first_stream + item.chunk, at = chunk * c * d;
    const device::TilePlace place{c, item.i0, item.d0, 0};
    const device::Rows<true> factor[1] = {{p.s + chunk * c * c, c, c}};
    const device::Rows<true> d_dv_w{p.d_dv_w + at, c, d}, base{p.base_dva + at, c, d};
    float acc[1][MixTile::kThreadRows][4];
    float4 old[MixTile::kThreadRows];  // before the wait: base_dva was made before the first step
    device::for_outputs<MixTile, Triangle::transposed>(
        place, [&](int r, int i, int column) { old[r] = base.load(i, column); });
    const auto start = [&](auto& first) {
      device::clear(first);
      device::for_outputs<MixTile, Triangle::transposed>(place,
                                                         [&](int r, int, int) { device::unpack(old[r], first[0][r]); });
    };
    device::triangular_tile<MixTile, Triangle::transposed, 1>(memory, factor, d_dv_w, place, wait, start, acc);
    device::for_outputs<MixTile, Triangle::transposed>(place, [&](int r, int i, int column) {
      device::store_row<true>(p.d_dva + at + static_cast<std::int64_t>(i) * d, column, d, acc[0][r]);
    });
  }
}

/// undo's walk_kernel for the team's (stream, slice, part)s of one step.
template <typename F>
__device__ __forceinline__ void undo_phase(const BackwardArgs& a, const Team& team, int step, uint4* memory,
                                           WaitOnce wait) {
  using Lanes = undo::UndoLanes<typename F::G, typename F::B, F::kCode, true, false, false>;
  const Dims& d = a.dims;
  const undo::Params& p = a.undo;
  const WalkShape& shape = a.undo_walk;
  const int tokens_here = d.valid_tokens(step), valid = tokens_here * d.writes, positions = d.write_positions();
  const std::int64_t first_chunk = std::int64_t{step} * d.streams + team.first_stream;
  for (int item = team.rank; item < team.streams * shape.slices * shape.parts; item += team.size) {
    if (item != team.rank) __syncthreads();  // the shared memory of the item before has been read
    const device::WalkPlace place(first_chunk, item, valid, shape);
    const device::WalkMemory shared(memory, shape, d.chunk, Lanes::kSlotBytes, place);
    const Record* records = p.record + place.chunk * positions;
    const device::FirstOrdinal ordinal(records, p.window + place.chunk * window_count(positions), place);
    device::RecordFeed feed(records, shared.records, place, valid);
    for (int token = static_cast<int>(threadIdx.x); token < tokens_here; token += kThreads)
      shared.beta[token] = p.beta[place.chunk * d.chunk + token];
    wait();
    const ColumnSlice slice = undo_slice(d.head_dim, place.slice);
    const float* d_dva = p.d_dva + place.chunk * d.chunk * d.head_dim;
    if (shape.staged) device::copy_rows(device::token_block(d_dva, tokens_here, d.head_dim, place, shared, shape));
    Lanes lanes(p, place, slice, ordinal.value(), d_dva, shared, shape);
    device::walk_rows(lanes, feed, shape.units, [&] { device::wait_copies_but(shape.units); });  // token rows
    const std::int64_t plane = (place.slice * d.chunks() + place.chunk) * positions;
    device::clear_padding(p.d_kw_planes + plane, valid, positions, place, shape);
    device::clear_padding(p.d_decay_planes + plane, valid, positions, place, shape);
  }
  wait();  // also without an item: Team's counters rely on it
}

/// read_grad's walk_kernel (with dots) for the team's (stream, slice, part)s of one step.
template <typename F>
__device__ __forceinline__ void read_grad_phase(const BackwardArgs& a, const Team& team, int step, uint4* memory,
                                                WaitOnce wait) {
  using Lanes = read_grad::ReadLanes<typename F::G, typename F::B, true, true, false, false>;
  const Dims& d = a.dims;
  const read_grad::Params& p = a.read_grad;
  const WalkShape& shape = a.read_walk;
  const int tokens_here = d.valid_tokens(step), valid = tokens_here * d.reads, positions = d.read_positions();
  const std::int64_t first_chunk = std::int64_t{step} * d.streams + team.first_stream;
  for (int item = team.rank; item < team.streams * shape.slices * shape.parts; item += team.size) {
    if (item != team.rank) __syncthreads();  // the shared memory of the item before has been read
    const device::WalkPlace place(first_chunk, item, valid, shape);
    const device::WalkMemory shared(memory, shape, d.chunk, Lanes::kSlotBytes, place);
    device::RecordFeed feed(p.record + place.chunk * positions, shared.records, place, valid);
    const ColumnSlice slice = row_slice(d.head_dim, place.slice);
    const float* d_reading = p.d_reading + place.chunk * d.chunk * d.head_dim;  // an input: before the wait
    if (shape.staged) device::copy_rows(device::token_block(d_reading, tokens_here, d.head_dim, place, shared, shape));
    Lanes lanes(p, place, slice, d_reading, shared, shape);
    wait();
    device::walk_rows(lanes, feed, shape.units, [&] { device::wait_copies_but(shape.units); });  // token rows
    device::clear_padding(p.d_qw_planes + (place.slice * d.chunks() + place.chunk) * positions, valid, positions, place,
                          shape);
  }
  wait();  // also without an item: Team's counters rely on it
}

template <typename F>
__global__ void __launch_bounds__(kThreads, kCtasPerMultiprocessor)
    backward_kernel(const __grid_constant__ BackwardArgs a) {
  extern __shared__ uint4 shared[];
  const Team team(a.team, a.dims.streams, a.counters);
  for (int step = a.dims.steps - 1, round = 0; step >= 0; --step, ++round) {
    gather_grad_phase<F>(a, team, step, reinterpret_cast<float*>(shared), WaitOnce{team, kReadGrad, team.size * round});
    team.arrive(kGatherGrad);
    mix_grad_phase(a, team, step, shared, WaitOnce{team, kGatherGrad, team.size * (round + 1)});
    team.arrive(kMixGrad);
    undo_phase<F>(a, team, step, shared, WaitOnce{team, kMixGrad, team.size * (round + 1)});
    team.arrive(kUndo);
    read_grad_phase<F>(a, team, step, shared, WaitOnce{team, kUndo, team.size * (round + 1)});
    team.arrive(kReadGrad);
  }
}

}  // namespace sdm::fused
