#include "kernels/combine_grad/by_chunk.cuh"
#include "kernels/common/triangular_grid.cuh"

namespace sdm::combine_grad {
namespace {

// --- launchers (kernels: by_chunk.cuh, device::product_kernel) -----------------------------------------------------

std::string refuse(const Params& p, const Device&) {
  return device::refuse_tiles(p.dims.chunks(), 1, p.dims.chunk, p.dims.head_dim);
}

/// Calls body.operator()<Tile>() with the smallest tile that holds a chunk.
template <typename Body>
void dispatch_chunk(int chunk, Body&& body) {
  if (chunk <= 64) return body.template operator()<ChunkTile<64, 8, 16>>();
  if (chunk <= 128) return body.template operator()<ChunkTile<128, 16, 8>>();
  body.template operator()<ChunkTile<256, 16, 8>>();
}
struct ChunkPlan {
  device::LaunchShape shape;
  int column_tiles;
};
template <typename Tile>
ChunkPlan plan_of(const Params& p) {
  const int tiles = device::ceil_div(p.dims.head_dim, Tile::kColumns);
  return {{dim3(static_cast<unsigned>(p.dims.chunks() * tiles)), Tile::kThreads, sizeof(ChunkMemory<Tile>)}, tiles};
}
ChunkPlan plan_of(const Params& p) {
  ChunkPlan plan{};
  dispatch_chunk(p.dims.chunk, [&]<typename Tile>() { plan = plan_of<Tile>(p); });
  return plan;
}

device::TileKind tile_kind(const Params& p, const LaunchContext& context) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  return device::tile_kind(p.dims.chunks(), c, d, device::vectors_fit(c, d), context);
}
/// One launch instead of two, where there are enough chunks, vectors fit and shared memory holds a chunk. On an H200,
/// us: default 25 instead of 36, small120 41 (58), flagship 580 (600), flag64 174 (249).
bool by_chunk(const Params& p, const LaunchContext& context) {
  return tile_kind(p, context) == device::TileKind::wide &&
         plan_of(p).shape.shared_bytes <= context.device.shared_memory_per_block;
}

void launch(const Params& p, const LaunchContext& context) {
  if (by_chunk(p, context))
    return dispatch_chunk(p.dims.chunk, [&]<typename Tile>() {
      const ChunkPlan plan = plan_of<Tile>(p);
      device::launch(chunk_kernel<Tile>, plan.shape, context, p, plan.column_tiles);
    });
  device::ProductArgs args{p.dims.chunks(), p.dims.chunk, p.dims.head_dim, p.qk, p.d_reading, nullptr, p.u};
  device::launch_product<device::Triangle::transposed, false>(args, context);
  args.factor = p.s, args.rows = p.u, args.out = p.base_dva;
  device::launch_product<device::Triangle::transposed, false>(args, context);
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  if (by_chunk(p, context)) return device::describe(plan_of(p).shape) + ", both products of some columns of a chunk";
  const device::TileKind kind = tile_kind(p, context);
  return "2 launches, " +
         device::describe(device::tile_shape(kind, p.dims.chunks(), 1, p.dims.chunk, p.dims.head_dim)) + ", " +
         device::name_of(kind);
}

}  // namespace

const Variant<Params> simt = {
    .name = "simt",
    .why = "fp32 multiply-adds, the replay's bits",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::combine_grad
