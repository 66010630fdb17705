// dense_rescan, variant `simt`: fp32 multiply-adds in the order of the replay. One CTA owns 64 columns of V of one
// stream, or 32 or 16 where streams are few, and walks all chunks with its part of the state in registers; dq follows
// from the checkpoints in a second kernel.
#include "kernels/dense_rescan/launch.h"
#include "numerics/exp2.h"
#include "numerics/f16.h"

namespace sdm::dense_rescan {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kThreads = 256, kSide = 16;  ///< dq: a 16 x 16 grid of threads

template <typename T>
struct alignas(16) Pack8 {
  T value[8];
};

/// Copies 64 rows of kWidth elements, `stride` elements apart, to shared memory; 16 bytes a thread and turn.
template <int kWidth, typename T>
__device__ __forceinline__ void copy_rows(const T* from, std::int64_t stride, T* to) {
  constexpr int kPacks = kWidth / 8;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < kChunk * kPacks; i += kThreads)
    reinterpret_cast<Pack8<T>*>(to)[i] = reinterpret_cast<const Pack8<T>*>(from + i / kPacks * stride)[i % kPacks];
}

__device__ __forceinline__ void fold4(float factor, const float4& x, float (&acc)[4]) {
  acc[0] = fma_rn(factor, x.x, acc[0]);
  acc[1] = fma_rn(factor, x.y, acc[1]);
  acc[2] = fma_rn(factor, x.z, acc[2]);
  acc[3] = fma_rn(factor, x.w, acc[3]);
}

template <typename T, int kK, int kColumns>
struct ScanMemory {
  float io_h[kK][kColumns], v[kChunk][kColumns];
  alignas(16) T w[kChunk][kK], kg[kChunk][kK];
};

/// Thread (x, y) owns columns 4x..4x+3 of tokens kTokens*y.. and of state rows kRows*y..
template <typename T, int kK, int kColumns>
__global__ void __launch_bounds__(kThreads, 2) scan_kernel(const __grid_constant__ Params p) {
  extern __shared__ float4 shared[];
  auto& memory = *reinterpret_cast<ScanMemory<T, kK, kColumns>*>(shared);
  constexpr int kAcross = kColumns / 4, kDown = kThreads / kAcross, kTokens = kChunk / kDown, kRows = kK / kDown;
  const int x = static_cast<int>(threadIdx.x) % kAcross, y = static_cast<int>(threadIdx.x) / kAcross;
  const std::int64_t stream = blockIdx.x, batch = stream / p.heads, head = stream % p.heads;
  const int column = static_cast<int>(blockIdx.y) * kColumns + 4 * x;
  const std::int64_t state = (stream * kK + kRows * y) * p.value_dim + column;
  device::wait_for_previous_grid();
  float h[kRows][4] = {};
  for (int r = 0; r < kRows && p.h0; ++r)
    for (int i = 0; i < 4; ++i) h[r][i] = p.h0[state + static_cast<std::int64_t>(r) * p.value_dim + i];

#pragma unroll 1
  for (int chunk = 0; chunk < p.chunks; ++chunk) {
    const std::int64_t row0 = (batch * p.chunks + chunk) * kChunk * p.heads + head;  // of token 0
    copy_rows<kK>(static_cast<const T*>(p.w) + row0 * kK, static_cast<std::int64_t>(p.heads) * kK, &memory.w[0][0]);
    copy_rows<kK>(static_cast<const T*>(p.kg) + row0 * kK, static_cast<std::int64_t>(p.heads) * kK, &memory.kg[0][0]);
    T* checkpoint = static_cast<T*>(p.checkpoints) +
                    (((batch * p.chunks + chunk) * p.heads + head) * kK + kRows * y) * p.value_dim + column;
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const T stored = store_element<T>(h[r][i]);
        checkpoint[static_cast<std::int64_t>(r) * p.value_dim + i] = stored;
        memory.io_h[kRows * y + r][4 * x + i] = load_element(stored);
      }
    __syncthreads();
    float wh[kTokens][4] = {};
#pragma unroll 4
    for (int k = 0; k < kK; ++k) {
      const float4 row = *reinterpret_cast<const float4*>(&memory.io_h[k][4 * x]);
#pragma unroll
      for (int t = 0; t < kTokens; ++t) fold4(load_element(memory.w[kTokens * y + t][k]), row, wh[t]);
    }
#pragma unroll
    for (int t = 0; t < kTokens; ++t)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const std::int64_t at =
            (row0 + static_cast<std::int64_t>(kTokens * y + t) * p.heads) * p.value_dim + column + i;
        const T stored = store_element<T>(load_element(static_cast<const T*>(p.u)[at]) - wh[t][i]);
        static_cast<T*>(p.v_new)[at] = stored;
        memory.v[kTokens * y + t][4 * x + i] = load_element(stored);
      }
    const float* gd = p.g2 + (row0 + static_cast<std::int64_t>(kChunk - 1) * p.heads) * kK + kRows * y;
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      const float decay = exp2_rn(gd[r]);
#pragma unroll
      for (int i = 0; i < 4; ++i) h[r][i] = decay * h[r][i];
    }
    __syncthreads();
#pragma unroll 2
    for (int t = 0; t < kChunk; ++t) {
      const float4 v = *reinterpret_cast<const float4*>(&memory.v[t][4 * x]);
#pragma unroll
      for (int r = 0; r < kRows; ++r) fold4(load_element(memory.kg[t][kRows * y + r]), v, h[r]);
    }
    __syncthreads();
  }
  for (int r = 0; r < kRows; ++r)
    for (int i = 0; i < 4; ++i) p.final_state[state + static_cast<std::int64_t>(r) * p.value_dim + i] = h[r][i];
}

template <int kKeys>
struct QueryMemory {
  float d_out[kChunk][kTile + 1], state[kKeys][kTile + 1];  // + 1: columns spread over the banks
};

/// dq of one chunk and kKeys state rows (blockIdx.z) from its checkpoint. Ordered: a CTA adds all tiles; atomic: one
/// tile a CTA (blockIdx.y), into zeros. Thread (x, y) owns state rows x, x+16, .. of tokens 4y..4y+3.
template <typename T, int kKeys, bool kAtomic>
__global__ void __launch_bounds__(kThreads, 2) query_kernel(const __grid_constant__ Params p) {
  extern __shared__ float4 shared[];
  auto& memory = *reinterpret_cast<QueryMemory<kKeys>*>(shared);
  constexpr int kRows = kKeys / kSide;
  const int x = static_cast<int>(threadIdx.x) % kSide, y = static_cast<int>(threadIdx.x) / kSide;
  const std::int64_t chunk_row = blockIdx.x, chunk = chunk_row / p.heads, head = chunk_row % p.heads;
  const std::int64_t row0 = chunk * kChunk * p.heads + head, first_key = static_cast<std::int64_t>(blockIdx.z) * kKeys;
  const int first = kAtomic ? static_cast<int>(blockIdx.y) : 0, last = kAtomic ? first + 1 : p.value_dim / kTile;
  device::wait_for_previous_grid();
  float total[4][kRows] = {};
#pragma unroll 1
  for (int tile = first; tile < last; ++tile) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < kChunk * kTile; i += kThreads)
      memory.d_out[i / kTile][i % kTile] = load_element(static_cast<const T*>(
          p.d_out)[(row0 + static_cast<std::int64_t>(i / kTile) * p.heads) * p.value_dim + tile * kTile + i % kTile]);
    for (int i = static_cast<int>(threadIdx.x); i < kKeys * kTile; i += kThreads)
      memory.state[i / kTile][i % kTile] = load_element(static_cast<const T*>(
          p.checkpoints)[(chunk_row * p.key_dim + first_key + i / kTile) * p.value_dim + tile * kTile + i % kTile]);
    __syncthreads();
    float partial[4][kRows] = {};
#pragma unroll 4
    for (int v = 0; v < kTile; ++v)
#pragma unroll
      for (int t = 0; t < 4; ++t)
#pragma unroll
        for (int r = 0; r < kRows; ++r)
          partial[t][r] = fma_rn(memory.d_out[4 * y + t][v], memory.state[x + kSide * r][v], partial[t][r]);
#pragma unroll
    for (int t = 0; t < 4; ++t)
#pragma unroll
      for (int r = 0; r < kRows; ++r) total[t][r] = tile == first ? partial[t][r] : total[t][r] + partial[t][r];
  }
#pragma unroll
  for (int t = 0; t < 4; ++t)
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
      float* to =
          p.dq + (row0 + static_cast<std::int64_t>(4 * y + t) * p.heads) * p.key_dim + first_key + x + kSide * r;
      if constexpr (kAtomic)
        atomicAdd(to, total[t][r]);
      else
        *to = total[t][r];
    }
}

// --- launchers -------------------------------------------------------------------------------------------------------

device::LaunchShape scan_shape(const Params& p, int columns) {
  // io(h) and v_new in fp32, w and kg in io: ScanMemory.
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>((p.key_dim + kChunk) * columns) +
                            2 * sizeof(bf16_t) * static_cast<std::size_t>(kChunk * p.key_dim);
  return {.grid = dim3(static_cast<unsigned>(p.streams()), static_cast<unsigned>(p.value_dim / columns)),
          .threads = kThreads,
          .shared_bytes = bytes};
}
device::LaunchShape query_shape(const Params& p, const LaunchContext& context) {
  const int rows = query_rows(p, context);
  return {.grid = query_grid(p, context),
          .threads = kThreads,
          .shared_bytes = sizeof(float) * static_cast<std::size_t>((kChunk + rows) * (kTile + 1))};
}
int scan_columns(const Params& p, const LaunchContext& context) { return columns_of(p, context, kTile, 16); }

std::string refuse(const Params& p, const Device&) { return refuse_sizes(p); }

template <typename T>
void launch_scan(const Params& p, const LaunchContext& context) {
  const int columns = scan_columns(p, context);
  dispatch_value<64, 128>(
      p.key_dim, [&]<auto kK>() {
        dispatch_value<16, 32, 64>(
            columns, [&]<auto kColumns>() {
              static_assert(sizeof(ScanMemory<T, kK, kColumns>) ==
                            4 * (kK + kChunk) * kColumns + 2 * sizeof(T) * kChunk * kK);
              device::launch(scan_kernel<T, kK, kColumns>, scan_shape(p, columns), context, p);
            });
      });
}

void launch(const Params& p, const LaunchContext& context) {
  dispatch_half(p.io, [&]<typename T>() {
    launch_scan<T>(p, context);
    if (p.dq_mode == DqMode::off) return;
    if (p.dq_mode == DqMode::atomic) clear_dq(p, context);
    dispatch_value<32, 64, 128>(
        query_rows(p, context), [&]<auto kKeys>() {
          const auto kernel =
              p.dq_mode == DqMode::atomic ? query_kernel<T, kKeys, true> : query_kernel<T, kKeys, false>;
          device::launch(kernel, query_shape(p, context), context, p);
        });
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const int columns = scan_columns(p, context);
  std::string text = device::describe(scan_shape(p, columns));
  text.append(", ").append(std::to_string(columns)).append(" columns a block");
  if (p.dq_mode != DqMode::off) text.append("; ").append(describe_query(p, context, query_shape(p, context)));
  return text;
}

}  // namespace

const Variant<Params> simt = {
    .name = "simt",
    .why = "the bits of the replay: fp32 multiply-adds in ascending order",
    .guarantee = Guarantee::exact,
    .automatic = true,
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::dense_rescan
