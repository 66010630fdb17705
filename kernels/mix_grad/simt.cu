#include <type_traits>

#include "kernels/common/triangular_grid.cuh"
#include "kernels/mix_grad/mix_grad.h"

namespace sdm::mix_grad {
namespace {

using device::TileKind;
using device::Triangle;

// --- kernels ---------------------------------------------------------------------------------------------------------

/// One output tile of d_dva. `s` and `base_dva` are older than the previous launch, so the first factors are fetched
/// before waiting for it.
template <typename Tile, bool kVector>
__global__ void __launch_bounds__(Tile::kThreads, 3) mix_grad_kernel(const __grid_constant__ Params p) {
  __shared__ device::TileMemory<Tile, Triangle::transposed, 1> memory;
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const auto item = device::tile_item<Tile, Triangle::transposed>(p.dims.step_streams(), 1, c, d);
  const std::int64_t chunk = static_cast<std::int64_t>(p.step) * p.dims.streams + item.chunk, at = chunk * c * d;
  const device::TilePlace place{c, item.i0, item.d0, 0};
  const device::Rows<kVector> factor[1] = {{p.s + chunk * c * c, c, c}};
  const device::Rows<kVector> d_dv_w{p.d_dv_w + at, c, d}, base{p.base_dva + at, c, d};
  float acc[1][Tile::kThreadRows][4];
  const auto start = [&](auto& first) {
    device::clear(first);
    device::for_outputs<Tile, Triangle::transposed>(
        place, [&](int r, int i, int column) { device::unpack(base.load(i, column), first[0][r]); });
  };
  device::triangular_tile<Tile, Triangle::transposed, 1>(memory, factor, d_dv_w, place, device::TakeTurn{}, start, acc);
  device::for_outputs<Tile, Triangle::transposed>(place, [&](int r, int i, int column) {
    device::store_row<kVector>(p.d_dva + at + static_cast<std::int64_t>(i) * d, column, d, acc[0][r]);
  });
}

// --- launchers -------------------------------------------------------------------------------------------------------

std::string refuse(const Params& p, const Device&) { return device::refuse_step(p, 1); }

/// Wide tiles by 256 threads: flagship makes one wave, whose long folds end alone (453 us on an H200, 538 with 128
/// threads).
device::LaunchShape shape_of(const Params& p, TileKind kind) {
  device::LaunchShape shape = device::step_shape(p, kind, 1);
  if (kind == TileKind::wide) shape.threads = device::PairTile::kThreads;
  return shape;
}

void launch(const Params& p, const LaunchContext& context) {
  const TileKind kind = device::step_kind(p, context);
  device::dispatch_tile(kind, [&]<typename Tile, bool kVector>() {
    using Used = std::conditional_t<std::is_same_v<Tile, device::WideTile>, device::PairTile, Tile>;
    device::launch(mix_grad_kernel<Used, kVector>, shape_of(p, kind), context, p);
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

}  // namespace sdm::mix_grad
