#include "kernels/common/tensor_tile.cuh"
#include "kernels/common/triangular_grid.cuh"
#include "kernels/mix_grad/mix_grad.h"

namespace sdm::mix_grad {
namespace {

using device::TileKind;
using device::Triangle;

// --- kernels ---------------------------------------------------------------------------------------------------------

/// One output tile of d_dva. As in simt, the first factors are fetched before waiting for the previous launch, which
/// wrote d_dv_w only.
template <typename Tile, bool kVector>
__global__ void __launch_bounds__(Tile::kThreads, 3) mix_grad_tensor_kernel(const __grid_constant__ Params p) {
  __shared__ device::TensorMemory<Tile, Triangle::transposed> memory;
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const auto item = device::tile_item<Tile, Triangle::transposed>(p.dims.streams, 1, c, d);
  const std::int64_t chunk = static_cast<std::int64_t>(p.step) * p.dims.streams + item.chunk, at = chunk * c * d;
  const device::TilePlace place{c, item.i0, item.d0, 0};
  const device::Rows<kVector> factor{p.s + chunk * c * c, c, c}, rows{p.d_dv_w + at, c, d}, base{p.base_dva + at, c, d};
  device::TensorWarp<Tile> warp;
  const auto start = [&] {
    warp.for_pairs([&](int row, int column, float& first, float& second) {
      const float2 x = device::load_pair(base, place.i0 + row, place.d0 + column);
      first = x.x, second = x.y;
    });
  };
  device::tensor_tile<Tile, Triangle::transposed>(memory, factor, rows, place, device::TakeTurn{}, start, warp);
  warp.for_pairs([&](int row, int column, float& first, float& second) {
    device::store_pair<kVector>(p.d_dva + at, c, d, place.i0 + row, place.d0 + column, make_float2(first, second));
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
  return device::refuse_tiles(p.dims.streams, 1, p.dims.chunk, p.dims.head_dim);
}

void launch(const Params& p, const LaunchContext& context) {
  const TileKind kind = kind_of(p, context);
  device::dispatch_tile(kind, [&]<typename Tile, bool kVector>() {
    device::launch(mix_grad_tensor_kernel<Tile, kVector>,
                   device::tile_shape(kind, p.dims.streams, 1, p.dims.chunk, p.dims.head_dim), context, p);
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const TileKind kind = kind_of(p, context);
  return device::describe(device::tile_shape(kind, p.dims.streams, 1, p.dims.chunk, p.dims.head_dim)) + ", " +
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

}  // namespace sdm::mix_grad
