#include "kernels/common/tensor_tile.cuh"
#include "kernels/common/triangular_grid.cuh"
#include "kernels/mix_grad/mix_grad.h"

namespace sdm::mix_grad {
namespace {

using device::Triangle;

// --- kernels ---------------------------------------------------------------------------------------------------------

/// One output tile of d_dva. As in simt, the first factors are fetched before waiting for the previous launch, which
/// wrote d_dv_w only.
template <typename Tile, bool kVector>
__global__ void __launch_bounds__(Tile::kThreads, 3) mix_grad_tensor_kernel(const __grid_constant__ Params p) {
  __shared__ device::TensorMemory<Tile, Triangle::transposed> memory;
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const auto item = device::tile_item<Tile, Triangle::transposed>(p.dims.step_streams(), 1, c, d);
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

constexpr int kProducts = 1;

std::string refuse(const Params& p, const Device& device) { return device::refuse_tensor_step(p, device, kProducts); }

void launch(const Params& p, const LaunchContext& context) {
  const device::TileKind kind = device::step_kind(p, context);
  device::dispatch_tile(kind, [&]<typename Tile, bool kVector>() {
    device::launch(mix_grad_tensor_kernel<Tile, kVector>, device::step_shape(p, kind, kProducts), context, p);
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

}  // namespace sdm::mix_grad
