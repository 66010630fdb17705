#include "kernels/combine/combine.h"
#include "kernels/common/triangular_grid.cuh"

namespace sdm::combine {
namespace {

using device::TileKind;
using device::Triangle;

// --- kernels ---------------------------------------------------------------------------------------------------------

/// Rows of B = -S diag(beta), made from S on the way.
template <bool kVector>
struct BRows {
  device::Rows<kVector> s;
  const float* beta;
  __device__ __forceinline__ float element(float value, int row, int column) const {
    return column <= row && row < s.rows ? (-value) * beta[column] : 0.0f;
  }
  __device__ __forceinline__ float4 load(int row, int column) const {
    const float4 v = s.load(row, column);
    return make_float4(element(v.x, row, column), element(v.y, row, column + 1), element(v.z, row, column + 2),
                       element(v.w, row, column + 3));
  }
};

/// One tile of B and of QB = QK*B, both lower triangular: QB[i][j] folds k = j..i.
template <typename Tile, bool kVector>
__global__ void __launch_bounds__(Tile::kThreads, 3) matrices_kernel(const __grid_constant__ Params p) {
  __shared__ device::TileMemory<Tile, Triangle::lower, 1> memory;
  device::wait_for_previous_grid();
  const int c = p.dims.chunk;
  const auto item = device::tile_item<Tile, Triangle::lower>(p.dims.chunks(), 1, c, c);
  const std::int64_t at = item.chunk * c * c;
  const device::TilePlace place{c, item.i0, item.d0, 0};
  const device::Rows<kVector> qk[1] = {{p.qk + at, c, c}};
  const BRows<kVector> b{{p.s + at, c, c}, p.beta + item.chunk * c};
  float acc[1][Tile::kThreadRows][4];
  device::triangular_tile<Tile, Triangle::lower, 1, true>(
      memory, qk, b, place, [] {}, [](auto& start) { device::clear(start); }, acc);
  device::for_outputs<Tile, Triangle::lower>(place, [&](int r, int i, int column) {
    float own[4];
    device::unpack(b.load(i, column), own);
    device::store_row<kVector>(p.b + at + i * c, column, c, own);
    device::store_row<kVector>(p.qb + at + i * c, column, c, acc[0][r]);
  });
}

// --- launchers -------------------------------------------------------------------------------------------------------

TileKind matrices_kind(const Params& p, const LaunchContext& context) {
  return device::tile_kind(p.dims.chunks(), p.dims.chunk, p.dims.chunk, p.dims.chunk % 4 == 0, context);
}

std::string refuse(const Params& p, const Device&) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  return device::refuse_tiles(p.dims.chunks(), 1, c, c > d ? c : d);
}

void launch(const Params& p, const LaunchContext& context) {
  const TileKind kind = matrices_kind(p, context);
  device::dispatch_tile(kind, [&]<typename Tile, bool kVector>() {
    device::launch(matrices_kernel<Tile, kVector>,
                   device::tile_shape(kind, p.dims.chunks(), 1, p.dims.chunk, p.dims.chunk), context, p);
  });
  device::ProductArgs args{p.dims.chunks(), p.dims.chunk, p.dims.head_dim, p.s, p.v, p.beta, p.base_dv};
  device::launch_product<Triangle::lower, true>(args, context);
  args.factor = p.qk, args.rows = p.base_dv, args.scale = nullptr, args.out = p.base_out;
  device::launch_product<Triangle::lower, false>(args, context);
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const TileKind matrices = matrices_kind(p, context);
  const TileKind rows = device::tile_kind(p.dims.chunks(), c, d, device::vectors_fit(c, d), context);
  return "B and QB: " + device::describe(device::tile_shape(matrices, p.dims.chunks(), 1, c, c)) + ", " +
         device::name_of(matrices) +
         "; base_dv and base_out: " + device::describe(device::tile_shape(rows, p.dims.chunks(), 1, c, d)) + ", " +
         device::name_of(rows);
}

}  // namespace

const Variant<Params> simt = {
    .name = "simt",
    .why = "fp32 multiply-adds, the replay's bits",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::combine
