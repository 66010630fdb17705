#include "kernels/common/tensor_tile.cuh"
#include "kernels/common/triangular_grid.cuh"
#include "kernels/mix/mix.h"

namespace sdm::mix {
namespace {

using device::TileKind;
using device::Triangle;

// --- kernels ---------------------------------------------------------------------------------------------------------

/// One output tile of delta_v (product 0) or reading (product 1). As in simt, the first factors are fetched before
/// waiting for the previous launch, which wrote retrieved and inter only.
template <typename Tile, bool kVector>
__global__ void __launch_bounds__(Tile::kThreads, 3) mix_tensor_kernel(const __grid_constant__ Params p) {
  __shared__ device::TensorMemory<Tile, Triangle::lower> memory;
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const auto item = device::tile_item<Tile, Triangle::lower>(p.dims.streams, 2, c, d);
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

TileKind kind_of(const Params& p, const LaunchContext& context) {
  return device::tile_kind(p.dims.streams, p.dims.chunk, p.dims.head_dim,
                           device::vectors_fit(p.dims.chunk, p.dims.head_dim), context);
}

std::string refuse(const Params& p, const Device& device) {
  if (device.compute_capability < 80)
    return "tf32 tensor cores need compute capability 8.0; this device has " +
           std::to_string(device.compute_capability / 10) + "." + std::to_string(device.compute_capability % 10);
  return device::refuse_tiles(p.dims.streams, 2, p.dims.chunk, p.dims.head_dim);
}

void launch(const Params& p, const LaunchContext& context) {
  const TileKind kind = kind_of(p, context);
  device::dispatch_tile(kind, [&]<typename Tile, bool kVector>() {
    device::launch(mix_tensor_kernel<Tile, kVector>,
                   device::tile_shape(kind, p.dims.streams, 2, p.dims.chunk, p.dims.head_dim), context, p);
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const TileKind kind = kind_of(p, context);
  return device::describe(device::tile_shape(kind, p.dims.streams, 2, p.dims.chunk, p.dims.head_dim)) + ", " +
         device::name_of(kind) + ", tf32 three times";
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
