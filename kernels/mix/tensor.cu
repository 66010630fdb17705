#include "kernels/common/tensor_tile.cuh"
#include "kernels/common/triangular_grid.cuh"
#include "kernels/mix/mix.h"

namespace sdm::mix {
namespace {

using device::Triangle;

// --- kernels ---------------------------------------------------------------------------------------------------------

/// One output tile of delta_v (product 0) or reading (product 1). As in simt, the first factors are fetched before
/// waiting for the previous launch, which wrote retrieved and inter only.
template <typename Tile, bool kVector>
__global__ void __launch_bounds__(Tile::kThreads, 3) mix_tensor_kernel(const __grid_constant__ Params p) {
  __shared__ device::TensorMemory<Tile, Triangle::lower> memory;
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const auto item = device::tile_item<Tile, Triangle::lower>(p.dims.step_streams(), 2, c, d);
  const std::int64_t chunk = static_cast<std::int64_t>(p.step) * p.dims.streams + item.chunk, at = chunk * c * d;
  const device::TilePlace place{c, item.i0, item.d0, 0};
  const bool is_delta = item.product == 0;
  const device::Rows<kVector> factor{(is_delta ? p.b : p.qb) + chunk * c * c, c, c}, retrieved{p.retrieved + at, c, d};
  const device::Rows<kVector> base{(is_delta ? p.base_dv : p.base_out) + at, c, d}, inter{p.inter + at, c, d};
  device::TensorWarp<Tile> warp;
  const auto start = [&] {
    warp.for_pairs([&](int row, int column, float& first, float& second) {
      const float2 x = device::load_pair(base, place.i0 + row, place.d0 + column);
      first = x.x, second = x.y;
      if (is_delta) return;
      const float2 y = device::load_pair(inter, place.i0 + row, place.d0 + column);
      first = y.x + x.x, second = y.y + x.y;
    });
  };
  device::tensor_tile<Tile, Triangle::lower>(memory, factor, retrieved, place, device::TakeTurn{}, start, warp);
  float* out = (is_delta ? p.delta_v : p.reading) + at;
  warp.for_pairs([&](int row, int column, float& first, float& second) {
    device::store_pair<kVector>(out, c, d, place.i0 + row, place.d0 + column, make_float2(first, second));
  });
}

// --- launchers -------------------------------------------------------------------------------------------------------

constexpr int kProducts = 2;

std::string refuse(const Params& p, const Device& device) { return device::refuse_tensor_step(p, device, kProducts); }

void launch(const Params& p, const LaunchContext& context) {
  const device::TileKind kind = device::step_kind(p, context);
  device::dispatch_tile(kind, [&]<typename Tile, bool kVector>() {
    device::launch(mix_tensor_kernel<Tile, kVector>, device::step_shape(p, kind, kProducts), context, p);
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  return device::describe_tensor_step(p, context, kProducts);
}

}  // namespace

const Variant<Params> tensor = {
    .name = "tensor",
    .why = "wide rows and long chunks, where close to fp32 is enough",
    .guarantee = Guarantee::repeatable,
    .automatic = false,
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::mix
