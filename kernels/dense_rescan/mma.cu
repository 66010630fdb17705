// dense_rescan, variant `mma`: tensor cores by mma.sync, sm_80 and newer. One CTA of four warps owns 64 columns of V of
// one stream, or 32 or 16 where streams are few, and walks all chunks with its part of the state in accumulators; dq
// follows from the checkpoints in a second kernel, which the wgmma variant uses, too, where it splits V.
#include "kernels/common/async_copy.cuh"
#include "kernels/dense_rescan/launch.h"
#include "kernels/dense_rescan/mma.cuh"
#include "numerics/exp2.h"

namespace sdm::dense_rescan {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kThreads = 128;
constexpr int kPad = 8;  ///< halves: rows 16 bytes longer spread the eight rows of a matrix over all banks
constexpr int kTileStride = kTile + kPad;

/// One chunk's inputs; v_new takes u's place.
template <typename T, int kK, int kColumns>
struct alignas(16) ChunkMemory {
  T w[kChunk][kK + kPad], kg[kChunk][kK + kPad], v[kChunk][kColumns + kPad];
};
template <typename T, int kK, int kColumns>
struct alignas(16) ScanMemory {
  T io_h[kK][kColumns + kPad];
  ChunkMemory<T, kK, kColumns> chunk[1];  // [depth]
};
constexpr std::size_t scan_bytes(int key_dim, int columns, int depth) {
  const int keys = kChunk * (key_dim + kPad), row = columns + kPad;
  return sizeof(bf16_t) * static_cast<std::size_t>(key_dim * row + depth * (2 * keys + kChunk * row));
}

/// Copies kRows rows of kWidth elements, `stride` elements apart, into padded rows.
template <int kRows, int kWidth, typename T>
__device__ __forceinline__ void fetch_rows(const T* from, std::int64_t stride, T* to) {
  constexpr int kPacks = kWidth / 8;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kPacks; i += kThreads)
    device::copy_async<16>(to + i / kPacks * (kWidth + kPad) + i % kPacks * 8,
                           from + i / kPacks * stride + i % kPacks * 8);
}

/// The other way, from padded rows.
template <int kRows, int kWidth, typename T>
__device__ __forceinline__ void store_rows(const T* from, T* to, std::int64_t stride) {
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kRows * kWidth / 8; i += kThreads)
    *reinterpret_cast<uint4*>(to + i / (kWidth / 8) * stride + i % (kWidth / 8) * 8) =
        *reinterpret_cast<const uint4*>(from + i / (kWidth / 8) * (kWidth + kPad) + i % (kWidth / 8) * 8);
}

/// d[16 x kColumns] += a b over kSteps * 16; a and b are given as the lane's ldmatrix addresses of step 0 and the bytes
/// from step to step. b lies as [k][column].
template <typename T, int kSteps, bool kTransposedA, int kColumns>
__device__ __forceinline__ void product(float (&d)[kColumns / 8][4], std::uint32_t a, std::uint32_t a_step,
                                        std::uint32_t b) {
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    std::uint32_t left[4];
    if constexpr (kTransposedA)
      load_matrices_transposed(left, a + step * a_step);
    else
      load_matrices(left, a + step * a_step);
#pragma unroll
    for (int pair = 0; pair < kColumns / 16; ++pair) {
      std::uint32_t right[4];
      load_matrices_transposed(right, b + step * 16 * (kColumns + kPad) * 2 + pair * 32);
      mma_tile<T>(d[2 * pair], left, right[0], right[1]);
      mma_tile<T>(d[2 * pair + 1], left, right[2], right[3]);
    }
  }
}

/// Warp w owns tokens 16w .. 16w+15 of w*io(h) and state rows kK/4*w .. of the update.
template <typename T, int kK, int kColumns>
__global__ void __launch_bounds__(kThreads, 2) scan_kernel(const __grid_constant__ Params p, int depth) {
  extern __shared__ float4 shared[];
  auto& memory = *reinterpret_cast<ScanMemory<T, kK, kColumns>*>(shared);
  constexpr int kBlocks = kK / 64;
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32, g = lane / 4,
            q = lane % 4;
  const std::int64_t stream = blockIdx.x, batch = stream / p.heads, head = stream % p.heads;
  const int column = static_cast<int>(blockIdx.y) * kColumns, first_row = kK / 4 * warp;
  const std::int64_t key_stride = static_cast<std::int64_t>(p.heads) * kK,
                     value_stride = static_cast<std::int64_t>(p.heads) * p.value_dim;
  const auto token0 = [&](int chunk) { return (batch * p.chunks + chunk) * kChunk * p.heads + head; };
  const auto fetch = [&](int chunk) {
    ChunkMemory<T, kK, kColumns>& to = memory.chunk[chunk % depth];
    fetch_rows<kChunk, kK>(static_cast<const T*>(p.w) + token0(chunk) * kK, key_stride, &to.w[0][0]);
    fetch_rows<kChunk, kK>(static_cast<const T*>(p.kg) + token0(chunk) * kK, key_stride, &to.kg[0][0]);
    fetch_rows<kChunk, kColumns>(static_cast<const T*>(p.u) + token0(chunk) * p.value_dim + column, value_stride,
                                 &to.v[0][0]);
  };
  device::wait_for_previous_grid();
  float h[kBlocks][kColumns / 8][4];
  const auto for_pairs = [&](auto&& body) {  // body(state row, column in the tile, first, second)
#pragma unroll
    for (int m = 0; m < kBlocks; ++m)
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
          body(first_row + 16 * m + g + 8 * half, 8 * j + 2 * q, h[m][j][2 * half], h[m][j][2 * half + 1]);
  };
  const auto state_at = [&](int row, int at) { return (stream * kK + row) * p.value_dim + column + at; };
  for_pairs([&](int row, int at, float& a, float& b) {
    a = p.h0 ? p.h0[state_at(row, at)] : 0.0f;
    b = p.h0 ? p.h0[state_at(row, at) + 1] : 0.0f;
  });
  if (depth > 1) fetch(0), device::commit_copies();

#pragma unroll 1
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    if (depth == 1) __syncthreads(), fetch(chunk), device::commit_copies();  // the chunk before is done with the memory
    const float* last = p.g2 + (token0(chunk) + static_cast<std::int64_t>(kChunk - 1) * p.heads) * kK + first_row + g;
    float decay[kBlocks][2];  // log2 until it is used: the loads are under way meanwhile
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) decay[i / 2][i % 2] = last[16 * (i / 2) + 8 * (i % 2)];
    for_pairs([&](int row, int at, float& a, float& b) {
      *reinterpret_cast<std::uint32_t*>(&memory.io_h[row][at]) = pack<T>(a, b);
    });
    device::wait_copies_but<0>();
    __syncthreads();
    if (depth > 1 && chunk + 1 < p.chunks) fetch(chunk + 1);
    device::commit_copies();
    store_rows<kK, kColumns>(
        &memory.io_h[0][0],
        static_cast<T*>(p.checkpoints) + ((batch * p.chunks + chunk) * p.heads + head) * kK * p.value_dim + column,
        p.value_dim);

    ChunkMemory<T, kK, kColumns>& now = memory.chunk[chunk % depth];
    float wh[kColumns / 8][4] = {};
    product<T, kK / 16, false, kColumns>(wh, shared_address(&now.w[16 * warp + lane % 16][lane / 16 * 8]), 32,
                                         shared_address(&memory.io_h[lane % 16][lane / 16 * 8]));
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        auto* pair = reinterpret_cast<std::uint32_t*>(&now.v[16 * warp + g + 8 * half][8 * j + 2 * q]);
        *pair = pack<T>(low_of<T>(*pair) - wh[j][2 * half], high_of<T>(*pair) - wh[j][2 * half + 1]);
      }
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) decay[i / 2][i % 2] = exp2_rn(decay[i / 2][i % 2]);
#pragma unroll
    for (int m = 0; m < kBlocks; ++m)
#pragma unroll
      for (int j = 0; j < kColumns / 8; ++j)
#pragma unroll
        for (int i = 0; i < 4; ++i) h[m][j][i] = decay[m][i / 2] * h[m][j][i];
    __syncthreads();
    store_rows<kChunk, kColumns>(&now.v[0][0], static_cast<T*>(p.v_new) + token0(chunk) * p.value_dim + column,
                                 value_stride);
#pragma unroll
    for (int m = 0; m < kBlocks;
         ++m)  // kg lies as [token][k]: matrix i of a lane group holds tokens 8*(i/2).., k 8*(i%2)..
      product<T, kChunk / 16, true, kColumns>(
          h[m], shared_address(&now.kg[lane % 8 + lane / 16 * 8][first_row + 16 * m + lane / 8 % 2 * 8]),
          16 * (kK + kPad) * 2, shared_address(&now.v[lane % 16][lane / 16 * 8]));
  }
  for_pairs([&](int row, int at, float& a, float& b) {
    *reinterpret_cast<float2*>(p.final_state + state_at(row, at)) = make_float2(a, b);
  });
}

template <typename T, int kKeys>
struct alignas(16) QueryMemory {
  T d_out[2][kChunk][kTileStride], state[2][kKeys][kTileStride];
};

/// dq of one chunk and kKeys state rows (blockIdx.z) from its checkpoint; warp w owns tokens 16w .. Ordered: a CTA
/// walks all tiles; atomic: one tile a CTA (blockIdx.y), into zeros.
template <typename T, int kKeys, bool kAtomic>
__global__ void __launch_bounds__(kThreads, 3) query_kernel(const __grid_constant__ Params p) {
  extern __shared__ float4 shared[];
  auto& memory = *reinterpret_cast<QueryMemory<T, kKeys>*>(shared);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const std::int64_t chunk_row = blockIdx.x, row0 = chunk_row / p.heads * kChunk * p.heads + chunk_row % p.heads;
  const std::int64_t first_key = static_cast<std::int64_t>(blockIdx.z) * kKeys;
  const int first = kAtomic ? static_cast<int>(blockIdx.y) : 0, last = kAtomic ? first + 1 : p.value_dim / kTile;
  const auto fetch = [&](int tile) {
    fetch_rows<kChunk, kTile>(static_cast<const T*>(p.d_out) + row0 * p.value_dim + tile * kTile,
                              static_cast<std::int64_t>(p.heads) * p.value_dim, &memory.d_out[tile % 2][0][0]);
    fetch_rows<kKeys, kTile>(
        static_cast<const T*>(p.checkpoints) + (chunk_row * p.key_dim + first_key) * p.value_dim + tile * kTile,
        p.value_dim, &memory.state[tile % 2][0][0]);
    device::commit_copies();
  };
  device::wait_for_previous_grid();
  fetch(first);
  float acc[kKeys / 8][4] = {};
#pragma unroll 1
  for (int tile = first; tile < last; ++tile) {
    if (tile + 1 < last) fetch(tile + 1);
    tile + 1 < last ? device::wait_copies_but<1>() : device::wait_copies_but<0>();
    __syncthreads();
    const std::uint32_t a = shared_address(&memory.d_out[tile % 2][16 * warp + lane % 16][lane / 16 * 8]);
    const std::uint32_t b = shared_address(&memory.state[tile % 2][lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]);
#pragma unroll
    for (int step = 0; step < kTile / 16; ++step) {
      std::uint32_t left[4];
      load_matrices(left, a + step * 32);
#pragma unroll
      for (int pair = 0; pair < kKeys / 16; ++pair) {
        std::uint32_t right[4];
        load_matrices(right, b + pair * 16 * kTileStride * 2 + step * 32);
        mma_tile<T>(acc[2 * pair], left, right[0], right[1]);
        mma_tile<T>(acc[2 * pair + 1], left, right[2], right[3]);
      }
    }
    __syncthreads();
  }
#pragma unroll
  for (int j = 0; j < kKeys / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float* to = p.dq + (row0 + static_cast<std::int64_t>(16 * warp + lane / 4 + 8 * half) * p.heads) * p.key_dim +
                  first_key + 8 * j + lane % 4 * 2;
      const float x = acc[j][2 * half], y = acc[j][2 * half + 1];
      if constexpr (kAtomic)
        atomicAdd(to, x), atomicAdd(to + 1, y);
      else
        *reinterpret_cast<float2*>(to) = make_float2(x, y);
    }
}

// --- launchers -------------------------------------------------------------------------------------------------------

int scan_columns(const Params& p, const LaunchContext& context) { return columns_of(p, context, kTile, 16); }

/// Two chunks in shared memory where they fit a block, else one.
int depth_of(const Params& p, const LaunchContext& context) {
  const std::size_t bytes = scan_bytes(p.key_dim, scan_columns(p, context), 2);
  return context.geometry.depth == 1 || bytes > context.device.shared_memory_per_block ? 1 : 2;
}

device::LaunchShape scan_shape(const Params& p, const LaunchContext& context) {
  const int columns = scan_columns(p, context);
  return {.grid = dim3(static_cast<unsigned>(p.streams()), static_cast<unsigned>(p.value_dim / columns)),
          .threads = kThreads,
          .shared_bytes = scan_bytes(p.key_dim, columns, depth_of(p, context))};
}

device::LaunchShape query_shape(const Params& p, const LaunchContext& context) {
  const int rows = query_rows(p, context);
  return {.grid = query_grid(p, context),
          .threads = kThreads,
          .shared_bytes = 2 * sizeof(bf16_t) * static_cast<std::size_t>((kChunk + rows) * kTileStride)};
}

std::string refuse(const Params& p, const Device& device) {
  if (device.compute_capability < 80)
    return std::string("bf16 tensor cores need compute capability 8.0; this device has ") +
           std::to_string(device.compute_capability / 10) + "." + std::to_string(device.compute_capability % 10);
  return refuse_sizes(p);
}

template <typename T>
void launch_scan(const Params& p, const LaunchContext& context) {
  dispatch_value<64, 128>(
      p.key_dim, [&]<auto kK>() {
        dispatch_value<16, 32, 64>(
            scan_columns(p, context), [&]<auto kColumns>() {
              static_assert(sizeof(ScanMemory<T, kK, kColumns>) == scan_bytes(kK, kColumns, 1));
              device::launch(scan_kernel<T, kK, kColumns>, scan_shape(p, context), context, p, depth_of(p, context));
            });
      });
}

void launch(const Params& p, const LaunchContext& context) {
  dispatch_half(p.io, [&]<typename T>() { launch_scan<T>(p, context); });
  if (p.dq_mode != DqMode::off) launch_query(p, context);
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  std::string text = device::describe(scan_shape(p, context));
  text.append(", depth ").append(std::to_string(depth_of(p, context))).append(", ");
  text.append(std::to_string(scan_columns(p, context))).append(" columns a block");
  if (p.dq_mode != DqMode::off) text.append("; ").append(describe_query(p, context));
  return text;
}

}  // namespace

void launch_query(const Params& p, const LaunchContext& context) {
  if (p.dq_mode == DqMode::atomic) clear_dq(p, context);
  dispatch_half(p.io, [&]<typename T>() {
    dispatch_value<32, 64, 128>(
        query_rows(p, context), [&]<auto kKeys>() {
          const auto kernel =
              p.dq_mode == DqMode::atomic ? query_kernel<T, kKeys, true> : query_kernel<T, kKeys, false>;
          device::launch(kernel, query_shape(p, context), context, p);
        });
  });
}

std::string describe_query(const Params& p, const LaunchContext& context) {
  return describe_query(p, context, query_shape(p, context));
}

const Variant<Params> mma = {
    .name = "mma",
    .why = "tensor cores of any GPU since sm_80",
    .guarantee = Guarantee::repeatable,
    .automatic = true,
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::dense_rescan
