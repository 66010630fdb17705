// undo, variant `walk`: see kernels/common/row_walk.cuh. Per group two rows are read (gradient, snapshot) and two are
// written (gradient, bank); both come 16 positions ahead. Two lane trees per position, four positions at a time.
#include "kernels/undo/pairs.cuh"

namespace sdm::undo {
namespace {

using namespace device;

// --- kernels ---------------------------------------------------------------------------------------------------------

template <typename Lanes, bool kVector, bool kGrouped>
__global__ void __launch_bounds__(kWalkThreads<kVector>, 1) walk_kernel(const Params p, const WalkShape shape) {
  extern __shared__ uint4 memory[];
  const int valid = p.dims.valid_tokens(p.step) * p.dims.writes;
  const int positions = p.dims.write_positions();
  const WalkPlace place(p.dims, p.step, valid, shape, kGrouped ? shape.group : 1);
  const WalkMemory shared(memory, shape, p.dims.chunk, Lanes::kSlotBytes, place);
  RowStage stage(shared.barrier, shape.engine);
  // Records, windows, beta and the rows are older than the previous launch, which made the token rows: the first rows
  // are on their way before the wait for it (H200: f32_128 1,292 us to 1,190, small120 962 to 931, default 760 to 740).
  // What a CTA begins with is asked for together, so that it waits once (default 714 to 699).
  const Record* records = p.record + place.chunk * positions;
  const FirstOrdinal ordinal(records, p.window + place.chunk * window_count(positions), place);
  for (int token = static_cast<int>(threadIdx.x); token < p.dims.valid_tokens(p.step);
       token += static_cast<int>(blockDim.x))
    copy_async<4>(shared.beta + token, p.beta + place.chunk * p.dims.chunk + token);
  commit_copies();
  RecordFeed feed(records, shared.records, place, valid);
  const ColumnSlice slice = undo_slice(p.dims.head_dim, Lanes::kSlices * place.slice);
  const float* d_dva = p.d_dva + place.chunk * p.dims.chunk * p.dims.head_dim;
  Lanes lanes(p, place, slice, ordinal.value(), d_dva, shared, shape);
  __syncthreads();
  walk_rows(lanes, feed, shape.units, [&] {
    if constexpr (Lanes::kAsks)
      if (shape.asks) ask_rows(lanes, feed, feed.begin() + shape.units * kWalkUnit, place.lane);
    wait_copies_but(shape.units);  // beta
    wait_for_previous_grid();
    allow_next_grid();
    if (!shape.staged) return;
    stage.template start<kVector>(
        token_block(d_dva, p.dims.valid_tokens(p.step), p.dims.head_dim, place, shared, shape));
    stage.template wait<kVector>();
  });
#pragma unroll
  for (int i = 0; i < Lanes::kSlices; ++i) {
    const std::int64_t plane = ((Lanes::kSlices * place.slice + i) * p.dims.chunks() + place.chunk) * positions;
    clear_padding(p.d_kw_planes + plane, valid, positions, place, shape);
    clear_padding(p.d_decay_planes + plane, valid, positions, place, shape);
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

/// Calls body.template operator()<G, B, kCode, kVector>() for the case's types.
template <typename Body>
void dispatch_walk(const Params& p, Body&& body) {
  const bool quantized = p.snapshot.format == SnapshotFormat::fp8 || p.snapshot.format == SnapshotFormat::int4;
  const bool narrowed = p.snapshot.format == SnapshotFormat::bf16 && p.bank.dtype == DType::f32;
  const RowCode code = quantized ? (p.snapshot.format == SnapshotFormat::fp8 ? RowCode::fp8 : RowCode::int4)
                                 : (narrowed ? RowCode::bf16 : RowCode::raw);
  const auto with_vector = [&]<typename G, typename B, RowCode kCode>() {
    dispatch_value<false, true>(p.dims.head_dim % 4 == 0,
                                [&]<bool kVector>() { body.template operator()<G, B, kCode, kVector>(); });
  };
  if (p.bank.dtype == DType::f32)
    dispatch_value<RowCode::raw, RowCode::bf16, RowCode::fp8, RowCode::int4>(
        code, [&]<RowCode kCode>() { with_vector.template operator()<float, float, kCode>(); });
  else
    dispatch_real(p.grad.dtype, [&]<typename G>() {
      dispatch_value<RowCode::raw, RowCode::fp8, RowCode::int4>(
          code, [&]<RowCode kCode>() { with_vector.template operator()<G, bf16_t, kCode>(); });
    });
}

template <typename G, typename B>
inline constexpr bool kBf16Rows = sizeof(G) == 2 && sizeof(B) == 2;

template <typename G, typename B, RowCode kCode, bool kVector>
WalkShape shape_of(const Params& p, const LaunchContext& context) {
  const int width = undo_slice_width(p.dims.head_dim);
  WalkShape shape =
      choose_walk({.streams = p.dims.step_streams(),
                   .slices = slice_count(p.dims.head_dim),
                   .stride = width,
                   .chunk = p.dims.chunk,
                   .valid = p.dims.valid_tokens(p.step) * p.dims.writes,
                   .slot_bytes = kUndoSlotBytes<G, kCode, B>,
                   .most_warps = walk_warps(kVector),
                   .group = walk_group(width * static_cast<int>(sizeof(G)), 4),
                   .pieces_fit = kBf16Rows<G, B> && kCode == RowCode::raw && made_of_pieces(p.dims.head_dim, width),
                   .pairs_fit = kBf16Rows<G, B> && made_of_pairs(p.dims.head_dim, width),
                   .short_tiles = true},
                  context);
  // Rows behind those on their way: the copy engine asks for them before it brings the token rows, so that a warp needs
  // some more (H200: small120 908 us to 902, with 32 positions a warp; default 707 to 777, with 16).
  shape.asks &= shape.tile >= 4 * shape.units * kWalkUnit;
  return shape;
}

LaunchShape launch_shape(const Params& p, const WalkShape& shape) {
  return {.grid = dim3(static_cast<unsigned>(p.dims.step_streams() * shape.slice_groups() * shape.parts)),
          .threads = shape.warps * kLanes,
          .shared_bytes = shape.shared_bytes};
}

std::string refuse_walk(const Params& p, const Device&) {
  if (p.bank.dtype == DType::f32 && p.grad.dtype == DType::bf16)
    return "undo:walk keeps the gradient of an f32 bank in f32, not bf16; set grad_dtype to f32";
  return "";
}

void launch_walk(const Params& p, const LaunchContext& context) {
  dispatch_walk(p, [&]<typename G, typename B, RowCode kCode, bool kVector>() {
    const WalkShape shape = shape_of<G, B, kCode, kVector>(p, context);
    const auto walk_by = [&]<typename Lanes, bool kGrouped>() {
      launch(walk_kernel<Lanes, kVector, kGrouped>, launch_shape(p, shape), context, p, shape);
    };
    if constexpr (kVector && kBf16Rows<G, B>) {
      if (shape.pairs) return walk_by.template operator()<UndoPairs<kCode>, false>();
      if constexpr (kCode == RowCode::raw)
        if (shape.pieces) return walk_by.template operator()<UndoLanes<G, B, kCode, true, true>, false>();
    }
    dispatch_value<false, true>(shape.group > 1, [&]<bool kGrouped>() {
      walk_by.template operator()<UndoLanes<G, B, kCode, kVector>, kGrouped>();
    });
  });
}

std::string describe_walk(const Params& p, const LaunchContext& context) {
  std::string text;
  dispatch_walk(p, [&]<typename G, typename B, RowCode kCode, bool kVector>() {
    const WalkShape shape = shape_of<G, B, kCode, kVector>(p, context);
    text = device::describe(launch_shape(p, shape)) + "; " + sdm::describe(shape);
  });
  return text;
}

}  // namespace

const Variant<Params> walk{.name = "walk",
                           .why =
                               "a warp per tile of groups and column slice; gradient and snapshot rows in a ring, "
                               "token rows in shared memory",
                           .refuse = refuse_walk,
                           .launch = launch_walk,
                           .describe = describe_walk};

const Variant<Params> walk_wide{.name = "walk_wide",
                                .why =
                                    "the published name of the form for snapshots of 2^31 rows and more: `walk`, whose "
                                    "row offsets are 64 bits wide in any case",
                                .automatic = false,
                                .refuse = refuse_walk,
                                .launch = launch_walk,
                                .describe = describe_walk};

}  // namespace sdm::undo
