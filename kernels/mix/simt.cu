#include <type_traits>

#include "kernels/common/triangular_grid.cuh"
#include "kernels/mix/mix.h"

namespace sdm::mix {
namespace {

using device::TileKind;
using device::Triangle;

// --- kernels ---------------------------------------------------------------------------------------------------------

/// Wide tiles compute both products over one pass of retrieved; small ones one product a CTA, to use more of the GPU.
template <typename Tile>
inline constexpr int kProductsOf = std::is_same_v<Tile, device::PairTile> ? 2 : 1;

/// One output tile of delta_v (product 0) or reading (product 1), or of both. `b`, `qb`, `base_dv` and `base_out` are
/// older than the previous launch, so the first factors are fetched before waiting for it.
template <typename Tile, bool kVector>
__global__ void __launch_bounds__(Tile::kThreads, kProductsOf<Tile> == 2 ? 2 : 3)
    mix_kernel(const __grid_constant__ Params p) {
  constexpr int kProducts = kProductsOf<Tile>;
  __shared__ device::TileMemory<Tile, Triangle::lower, kProducts> memory;
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const auto item = device::tile_item<Tile, Triangle::lower>(p.dims.step_streams(), 2 / kProducts, c, d);
  const std::int64_t chunk = static_cast<std::int64_t>(p.step) * p.dims.streams + item.chunk, at = chunk * c * d;
  const device::TilePlace place{c, item.i0, item.d0, 0};
  device::Rows<kVector> factor[kProducts];
#pragma unroll
  for (int q = 0; q < kProducts; ++q)
    factor[q] = {((kProducts == 2 ? q : item.product) == 0 ? p.b : p.qb) + chunk * c * c, c, c};
  const device::Rows<kVector> retrieved{p.retrieved + at, c, d}, inter{p.inter + at, c, d};
  const device::Rows<kVector> base_dv{p.base_dv + at, c, d}, base_out{p.base_out + at, c, d};
  float acc[kProducts][Tile::kThreadRows][4];
  const auto start = [&](auto& first) {
    device::clear(first);
    device::for_outputs<Tile, Triangle::lower>(place, [&](int r, int i, int column) {
#pragma unroll
      for (int q = 0; q < kProducts; ++q) {
        if ((kProducts == 2 ? q : item.product) == 0) {
          device::unpack(base_dv.load(i, column), first[q][r]);
        } else {
          const float4 x = inter.load(i, column), y = base_out.load(i, column);
          device::unpack(make_float4(x.x + y.x, x.y + y.y, x.z + y.z, x.w + y.w), first[q][r]);
        }
      }
    });
  };
  device::triangular_tile<Tile, Triangle::lower, kProducts>(memory, factor, retrieved, place, device::TakeTurn{}, start,
                                                            acc);
  device::for_outputs<Tile, Triangle::lower>(place, [&](int r, int i, int column) {
#pragma unroll
    for (int q = 0; q < kProducts; ++q) {
      float* out = (kProducts == 2 ? q : item.product) == 0 ? p.delta_v : p.reading;
      device::store_row<kVector>(out + at + static_cast<std::int64_t>(i) * d, column, d, acc[q][r]);
    }
  });
}

// --- launchers -------------------------------------------------------------------------------------------------------

device::LaunchShape shape_of(const Params& p, TileKind kind) {
  device::LaunchShape shape = device::step_shape(p, kind, kind == TileKind::wide ? 1 : 2);
  if (kind == TileKind::wide) shape.threads = device::PairTile::kThreads;
  return shape;
}

std::string refuse(const Params& p, const Device&) { return device::refuse_step(p, 2); }

void launch(const Params& p, const LaunchContext& context) {
  const TileKind kind = device::step_kind(p, context);
  device::dispatch_tile(kind, [&]<typename Tile, bool kVector>() {
    using Used = std::conditional_t<std::is_same_v<Tile, device::WideTile>, device::PairTile, Tile>;
    device::launch(mix_kernel<Used, kVector>, shape_of(p, kind), context, p);
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const TileKind kind = device::step_kind(p, context);
  return device::describe(shape_of(p, kind)) + ", " + device::name_of(kind);
}

}  // namespace

const Variant<Params> simt = {
    .name = "simt",
    .why = "fp32 multiply-adds, the replay's bits",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::mix
