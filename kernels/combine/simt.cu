#include "kernels/combine/chunk_products.cuh"
#include "kernels/common/triangular_grid.cuh"

namespace sdm::combine {
namespace {

using device::TileKind;
using device::Triangle;

// --- kernels ---------------------------------------------------------------------------------------------------------

/// Rows of B = -S diag(beta), made from S on the way.
template <bool kVector>
struct BRows {
  struct Raw {
    float4 s, beta;
  };
  device::Rows<kVector> s, beta;
  __device__ __forceinline__ float element(float value, float factor, int row, int column) const {
    return column <= row && row < s.rows ? (-value) * factor : 0.0f;
  }
  __device__ __forceinline__ Raw load(int row, int column) const { return {s.load(row, column), beta.load(0, column)}; }
  __device__ __forceinline__ float4 value(const Raw& raw, int row, int column) const {
    return make_float4(element(raw.s.x, raw.beta.x, row, column), element(raw.s.y, raw.beta.y, row, column + 1),
                       element(raw.s.z, raw.beta.z, row, column + 2), element(raw.s.w, raw.beta.w, row, column + 3));
  }
};

/// One tile of B and of QB = QK*B, both lower triangular: QB[i][j] folds k = j..i.
template <typename Tile, bool kVector>
__device__ __forceinline__ void matrices_tile(const Params& p, std::int64_t chunk, int i0, int d0,
                                              device::TileMemory<Tile, Triangle::lower, 1>& memory) {
  const int c = p.dims.chunk;
  const std::int64_t at = chunk * c * c;
  const device::TilePlace place{c, i0, d0, 0};
  const device::Rows<kVector> qk[1] = {{p.qk + at, c, c}};
  const BRows<kVector> b{{p.s + at, c, c}, {p.beta + chunk * c, 1, c}};
  float acc[1][Tile::kThreadRows][4];
  device::triangular_tile<Tile, Triangle::lower, 1, true>(
      memory, qk, b, place, [] {}, [](auto& start) { device::clear(start); }, acc);
  device::for_outputs<Tile, Triangle::lower>(place, [&](int r, int i, int column) {
    if (device::above_diagonal(i, column)) return;
    float own[4];
    device::unpack(b.value(b.load(i, column), i, column), own);
    device::store_row<kVector>(p.b + at + i * c, column, c, own);
    device::store_row<kVector>(p.qb + at + i * c, column, c, acc[0][r]);
  });
}

template <typename Tile, bool kVector>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kDepth > 16 ? 3 : 4)
    matrices_kernel(const __grid_constant__ Params p) {
  __shared__ device::TileMemory<Tile, Triangle::lower, 1> memory;
  device::wait_for_previous_grid();
  const auto item = device::tile_item_by_chunk<Tile, Triangle::lower>(p.dims.chunk, p.dims.chunk);
  matrices_tile<Tile, kVector>(p, item.chunk, item.i0, item.d0, memory);
}

/// All of a chunk of one tile in shared memory: nothing waits for the next 16 k.
template <typename Tile>
struct WholeTiles {
  static constexpr int kFactorStride = Tile::kRows + 4, kRowStride = Tile::kColumns;
  float s[Tile::kRows * kFactorStride], qk[Tile::kRows * kFactorStride], rows[Tile::kRows * kRowStride];
};

/// Some k of them, as fold_tile takes a stage.
template <typename Tile>
struct WholeView {
  static constexpr int kFactorStride = WholeTiles<Tile>::kFactorStride, kRowStride = WholeTiles<Tile>::kRowStride;
  const float* factor[1];
  const float* row;
};

/// Starts copying a [C, C] matrix, zeros up to a whole tile.
template <typename Tile>
__device__ __forceinline__ void fetch_factor(const float* matrix, int c, float* out) {
  constexpr int kAcross = Tile::kRows / 4;
  for (int v = static_cast<int>(threadIdx.x); v < Tile::kRows * kAcross; v += Tile::kThreads) {
    const int row = v / kAcross, k = v % kAcross * 4;
    float* at = out + row * WholeTiles<Tile>::kFactorStride + k;
    if (row < c && k < c)
      device::copy_async<16>(at, matrix + row * c + k);
    else
      *reinterpret_cast<float4*>(at) = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  device::commit_copies();
}
/// Rows of a source, from column d0 on.
template <typename Tile, typename Source>
__device__ __forceinline__ void fetch_rows(const Source& source, int d0, float* out) {
  constexpr int kVectors = Tile::kRows * Tile::kColumns / 4 / Tile::kThreads;
  typename Source::Raw raw[kVectors];
#pragma unroll
  for (int n = 0; n < kVectors; ++n) {
    const int v = static_cast<int>(threadIdx.x) + n * Tile::kThreads;
    raw[n] = source.load(v / Tile::kThreadsX, d0 + v % Tile::kThreadsX * 4);
  }
#pragma unroll
  for (int n = 0; n < kVectors; ++n) {
    const int v = static_cast<int>(threadIdx.x) + n * Tile::kThreads;
    const int row = v / Tile::kThreadsX, column = v % Tile::kThreadsX * 4;
    *reinterpret_cast<float4*>(out + row * Tile::kColumns + column) = source.value(raw[n], row, d0 + column);
  }
}

/// The product of a factor and the rows, folds from +0.
template <typename Tile, bool kColumnBound>
__device__ __forceinline__ void whole_product(const float* factor, const float* rows, int c,
                                              float (&acc)[1][Tile::kThreadRows][4]) {
  device::clear(acc);
  for (int k0 = 0; k0 < c; k0 += Tile::kDepth) {
    const WholeView<Tile> view{{factor + k0}, rows + k0 * Tile::kColumns};
    device::fold_triangle<Tile, Triangle::lower, 1, kColumnBound>(view, {c, 0, 0, k0}, min(Tile::kDepth, c - k0), acc);
  }
}

/// Chunks of one tile: base_dv and then base_out of one column tile, base_dv taking the place of the scaled values; the
/// CTAs after all column tiles make B and QB.
template <typename Tile>
__global__ void __launch_bounds__(Tile::kThreads, 4)
    one_tile_kernel(const __grid_constant__ Params p, int column_tiles) {
  auto& memory = *reinterpret_cast<WholeTiles<Tile>*>(device::dynamic_shared());
  device::wait_for_previous_grid();
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const unsigned products = static_cast<unsigned>(p.dims.chunks()) * static_cast<unsigned>(column_tiles);
  const bool matrices = blockIdx.x >= products;
  const std::int64_t chunk = matrices ? blockIdx.x - products : blockIdx.x / static_cast<unsigned>(column_tiles);
  const std::int64_t at = chunk * c * c;
  float acc[1][Tile::kThreadRows][4];
  if (!matrices) fetch_factor<Tile>(p.s + at, c, memory.s);
  fetch_factor<Tile>(p.qk + at, c, memory.qk);
  if (matrices) {
    fetch_rows<Tile>(BRows<true>{{p.s + at, c, c}, {p.beta + chunk * c, 1, c}}, 0, memory.rows);
    device::wait_copies_but<0>();
    __syncthreads();
    whole_product<Tile, true>(memory.qk, memory.rows, c, acc);
    device::for_outputs<Tile, Triangle::lower>({c, 0, 0, 0}, [&](int r, int i, int column) {
      if (device::above_diagonal(i, column)) return;
      float own[4];
      device::unpack(*reinterpret_cast<const float4*>(memory.rows + i * Tile::kColumns + column), own);
      device::store_row<true>(p.b + at + i * c, column, c, own);
      device::store_row<true>(p.qb + at + i * c, column, c, acc[0][r]);
    });
    return;
  }
  const int d0 = static_cast<int>(blockIdx.x % static_cast<unsigned>(column_tiles)) * Tile::kColumns;
  fetch_rows<Tile>(device::ScaledRows<true>{{p.v + chunk * c * d, c, d}, p.beta + chunk * c}, d0, memory.rows);
  device::wait_copies_but<1>();
  __syncthreads();
  whole_product<Tile, false>(memory.s, memory.rows, c, acc);
  __syncthreads();  // everyone is done with the values
  const device::TilePlace place{c, 0, d0, 0};
  device::for_outputs<Tile, Triangle::lower>(place, [&](int r, int i, int column) {
    device::store_row<true>(memory.rows + i * Tile::kColumns, column - d0, Tile::kColumns, acc[0][r]);
    device::store_row<true>(p.base_dv + (chunk * c + i) * d, column, d, acc[0][r]);
  });
  device::wait_copies_but<0>();
  __syncthreads();
  whole_product<Tile, false>(memory.qk, memory.rows, c, acc);
  device::for_outputs<Tile, Triangle::lower>(place, [&](int r, int i, int column) {
    device::store_row<true>(p.base_out + (chunk * c + i) * d, column, d, acc[0][r]);
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

bool one_tile(const Params& p) { return p.dims.chunk <= device::WideTile::kRows; }
static_assert(device::WideTile::kColumns == ChunkTile<128>::kColumns);
int tiles_across(int columns) { return device::ceil_div(columns, device::WideTile::kColumns); }

/// Calls body.operator()<Tile>() with the smallest tile that holds a chunk of more than one wide tile.
template <typename Body>
void dispatch_chunk(int chunk, Body&& body) {
  if (chunk <= 128) return body.template operator()<ChunkTile<128>>();
  body.template operator()<ChunkTile<256>>();
}
device::LaunchShape chunk_shape(const Params& p) {
  const std::int64_t tiles = tiles_across(p.dims.head_dim) + tiles_across(p.dims.chunk);
  device::LaunchShape shape{dim3(static_cast<unsigned>(p.dims.chunks() * tiles))};
  if (one_tile(p)) {
    shape.threads = device::WideTile::kThreads, shape.shared_bytes = sizeof(WholeTiles<device::WideTile>);
  } else {
    dispatch_chunk(p.dims.chunk, [&]<typename Tile>() {
      shape.threads = Tile::kThreads, shape.shared_bytes = sizeof(ChunkMemory<Tile>);
    });
  }
  return shape;
}
/// One launch instead of three, where there are enough chunks, vectors fit and shared memory holds a chunk: 47 us at
/// default on an H200 instead of 93.
bool by_chunk(const Params& p, const LaunchContext& context) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  return device::tile_kind(p.dims.chunks(), c, d, device::vectors_fit(c, d), context) == TileKind::wide &&
         chunk_shape(p).shared_bytes <= context.device.shared_memory_per_block;
}
void launch_chunks(const Params& p, const LaunchContext& context) {
  const int column_tiles = tiles_across(p.dims.head_dim);
  if (one_tile(p)) return device::launch(one_tile_kernel<device::WideTile>, chunk_shape(p), context, p, column_tiles);
  dispatch_chunk(p.dims.chunk, [&]<typename Tile>() {
    device::launch(chunk_kernel<Tile>, chunk_shape(p), context, p, column_tiles);
  });
}

void launch(const Params& p, const LaunchContext& context) {
  if (by_chunk(p, context)) return launch_chunks(p, context);
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
  if (by_chunk(p, context)) return device::describe(chunk_shape(p)) + ", all products of 64 columns of a chunk";
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
