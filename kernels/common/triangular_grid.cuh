#pragma once
// Grids of triangular products: which CTA computes which tile, and which tile shape a size gets; and the plain product.
#include "kernels/common/triangular.cuh"

namespace sdm::device {

/// What one CTA computes: a tile of one product of one chunk.
struct TileItem {
  std::int64_t chunk;
  int product, i0, d0;
};
/// Few chunks (a step's): the longest folds of all chunks come first, so that the short ones fill the tail of the
/// launch.
template <typename Tile, Triangle kTriangle>
__device__ __forceinline__ TileItem tile_item(std::int64_t chunks, int products, int chunk, int columns,
                                              unsigned block = blockIdx.x) {
  const unsigned column_tiles = static_cast<unsigned>((columns + Tile::kColumns - 1) / Tile::kColumns);
  const int row_tiles = (chunk + Tile::kRows - 1) / Tile::kRows;
  const unsigned per_row_tile = column_tiles * static_cast<unsigned>(chunks) * static_cast<unsigned>(products);
  const unsigned rest = block % per_row_tile;
  const int rank = static_cast<int>(block / per_row_tile);
  const int row_tile = kTriangle == Triangle::lower ? row_tiles - 1 - rank : rank;
  const unsigned of_chunk = rest / column_tiles;
  return {of_chunk / static_cast<unsigned>(products), static_cast<int>(of_chunk % static_cast<unsigned>(products)),
          row_tile * Tile::kRows, static_cast<int>(rest % column_tiles) * Tile::kColumns};
}

/// Many chunks (a pass's): one after the other, as their rows together would not stay in L2; the longest folds of each
/// first.
template <typename Tile, Triangle kTriangle>
__device__ __forceinline__ TileItem tile_item_by_chunk(int chunk, int columns) {
  const auto column_tiles = static_cast<unsigned>((columns + Tile::kColumns - 1) / Tile::kColumns);
  const auto row_tiles = static_cast<unsigned>((chunk + Tile::kRows - 1) / Tile::kRows);
  const unsigned of_chunk = blockIdx.x % (column_tiles * row_tiles);
  const int rank = static_cast<int>(of_chunk / column_tiles);
  const int row_tile = kTriangle == Triangle::lower ? static_cast<int>(row_tiles) - 1 - rank : rank;
  return {blockIdx.x / (column_tiles * row_tiles), 0, row_tile * Tile::kRows,
          static_cast<int>(of_chunk % column_tiles) * Tile::kColumns};
}

/// Which instance of a kernel runs: wide (vectors only), or small with or without vectors.
enum class TileKind { wide, small, small_elements };
inline const char* name_of(TileKind kind) {
  constexpr const char* names[] = {"64x64 tiles", "32x32 tiles", "32x32 tiles, single elements"};
  return names[static_cast<int>(kind)];
}

template <typename Tile>
std::int64_t tile_count(std::int64_t chunks, int chunk, int columns) {
  return chunks * ceil_div(chunk, Tile::kRows) * ceil_div(columns, Tile::kColumns);
}

/// Wide tiles once they give three of four multiprocessors a CTA; geometry.tile 32 or 64 overrides. Mix on an H200: 128
/// of them (`flag64`) 554 us against 704 of small ones, 60 (`wide960`) 498 against 413, 32 (`small120`) 399 against
/// 214.
inline TileKind tile_kind(std::int64_t chunks, int chunk, int columns, bool vectors, const LaunchContext& context) {
  if (!vectors) return TileKind::small_elements;
  if (context.geometry.tile == 32) return TileKind::small;
  if (context.geometry.tile == 64) return TileKind::wide;
  const bool enough = 4 * tile_count<WideTile>(chunks, chunk, columns) >= 3 * context.device.multiprocessors;
  return enough && chunk > SmallTile::kRows ? TileKind::wide : TileKind::small;
}

/// Calls body.operator()<Tile, kVector>().
template <typename Body>
void dispatch_tile(TileKind kind, Body&& body) {
  if (kind == TileKind::wide) return body.template operator()<WideTile, true>();
  if (kind == TileKind::small) return body.template operator()<SmallTile, true>();
  body.template operator()<SmallTile, false>();
}

inline LaunchShape tile_shape(TileKind kind, std::int64_t chunks, int products, int chunk, int columns) {
  const bool wide = kind == TileKind::wide;
  const std::int64_t tiles =
      wide ? tile_count<WideTile>(chunks, chunk, columns) : tile_count<SmallTile>(chunks, chunk, columns);
  return {dim3(static_cast<unsigned>(tiles * products)), wide ? WideTile::kThreads : SmallTile::kThreads, 0};
}

/// Rows of vectors: the extents of both matrices are multiples of 4.
inline bool vectors_fit(int chunk, int columns) { return chunk % 4 == 0 && columns % 4 == 0; }

/// Grids are one-dimensional; empty, or why a launch would not fit.
inline std::string refuse_tiles(std::int64_t chunks, int products, int chunk, int columns) {
  const std::int64_t tiles = tile_count<SmallTile>(chunks, chunk, columns) * products;
  if (tiles < (std::int64_t{1} << 31)) return "";
  return std::to_string(tiles) +
         " output tiles are more than the 2147483647 CTAs of a launch (fewer chunks or a smaller head_dim)";
}

// --- the products of a step (mix, mix_grad): one chunk a stream ------------------------------------------------------

template <typename Params>
TileKind step_kind(const Params& p, const LaunchContext& context) {
  const Dims& d = p.dims;
  return tile_kind(d.step_streams(), d.chunk, d.head_dim, vectors_fit(d.chunk, d.head_dim), context);
}
template <typename Params>
LaunchShape step_shape(const Params& p, TileKind kind, int products) {
  return tile_shape(kind, p.dims.step_streams(), products, p.dims.chunk, p.dims.head_dim);
}
template <typename Params>
std::string refuse_step(const Params& p, int products) {
  return refuse_tiles(p.dims.step_streams(), products, p.dims.chunk, p.dims.head_dim);
}
/// The same on tensor cores.
template <typename Params>
std::string refuse_tensor_step(const Params& p, const Device& device, int products) {
  if (device.compute_capability < 80)
    return "tf32 tensor cores need compute capability 8.0; this device has " +
           std::to_string(device.compute_capability / 10) + "." + std::to_string(device.compute_capability % 10);
  return refuse_step(p, products);
}
template <typename Params>
std::string describe_tensor_step(const Params& p, const LaunchContext& context, int products) {
  const TileKind kind = step_kind(p, context);
  return describe(step_shape(p, kind, products)) + ", " + name_of(kind) + ", tf32 three times";
}

// --- the plain product -----------------------------------------------------------------------------------------------

/// out = M x per chunk, folds from +0; x may be scaled by `scale[row]` first.
struct ProductArgs {
  std::int64_t chunks;
  int chunk, columns;
  const float* factor;  // [chunks, C, C]
  const float* rows;    // [chunks, C, columns]
  const float* scale;   // [chunks, C], only where kScaled
  float* out;           // [chunks, C, columns]
};

template <typename Tile, Triangle kTriangle, bool kVector, bool kScaled>
__global__ void __launch_bounds__(Tile::kThreads, Tile::kDepth > 16 ? 3 : 4)
    product_kernel(const __grid_constant__ ProductArgs a) {
  __shared__ TileMemory<Tile, kTriangle, 1> memory;
  wait_for_previous_grid();
  const TileItem item = tile_item_by_chunk<Tile, kTriangle>(a.chunk, a.columns);
  const TilePlace place{a.chunk, item.i0, item.d0, 0};
  const Rows<kVector> factor[1] = {{a.factor + item.chunk * a.chunk * a.chunk, a.chunk, a.chunk}};
  const Rows<kVector> rows{a.rows + item.chunk * a.chunk * a.columns, a.chunk, a.columns};
  float acc[1][Tile::kThreadRows][4];
  const auto zero = [](auto& start) { clear(start); };
  if constexpr (kScaled)
    triangular_tile<Tile, kTriangle, 1>(
        memory, factor, ScaledRows<kVector>{rows, a.scale + item.chunk * a.chunk}, place, [] {}, zero, acc);
  else
    triangular_tile<Tile, kTriangle, 1>(
        memory, factor, rows, place, [] {}, zero, acc);
  for_outputs<Tile, kTriangle>(place, [&](int r, int i, int column) {
    store_row<kVector>(a.out + (item.chunk * a.chunk + i) * a.columns, column, a.columns, acc[0][r]);
  });
}

template <Triangle kTriangle, bool kScaled>
void launch_product(const ProductArgs& args, const LaunchContext& context) {
  const TileKind kind =
      tile_kind(args.chunks, args.chunk, args.columns, vectors_fit(args.chunk, args.columns), context);
  dispatch_tile(kind, [&]<typename Tile, bool kVector>() {
    launch(product_kernel<Tile, kTriangle, kVector, kScaled>,
           tile_shape(kind, args.chunks, 1, args.chunk, args.columns), context, args);
  });
}

}  // namespace sdm::device
