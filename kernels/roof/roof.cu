#include "kernels/roof/roof.h"

#include "kernels/common/launch.h"

namespace sdm::roof {

// --- kernels ---------------------------------------------------------------------------------------------------------

namespace {

constexpr int kThreads = 256;
// At most 85 registers a thread, which 8 rows in flight fit; 96 KiB in flight on a multiprocessor are far more than
// latency times bandwidth.
constexpr int kBlocksPerMultiprocessor = 3;
constexpr int kRowsInFlight = 8;

__device__ __forceinline__ std::uint32_t folded(const uint4& v) { return v.x ^ v.y ^ v.z ^ v.w; }
__device__ __forceinline__ std::uint32_t folded(const uint2& v) { return v.x ^ v.y; }
__device__ __forceinline__ std::uint32_t folded(unsigned int v) { return v; }
__device__ __forceinline__ std::uint32_t folded(unsigned short v) { return v; }

__device__ __forceinline__ uint4 flipped(const uint4& v) {
  return {v.x ^ kFlip, v.y ^ kFlip, v.z ^ kFlip, v.w ^ kFlip};
}
__device__ __forceinline__ uint2 flipped(const uint2& v) { return {v.x ^ kFlip, v.y ^ kFlip}; }
__device__ __forceinline__ unsigned int flipped(unsigned int v) { return v ^ kFlip; }
__device__ __forceinline__ unsigned short flipped(unsigned short v) { return static_cast<unsigned short>(v ^ kFlip); }

/// A group of 2^lane_bits lanes takes kRowsInFlight rows at a time, one word of each row a lane, then the next words.
/// Past the last row it reads the last one again and drops what it read.
template <typename Word, bool kWrite>
__global__ void __launch_bounds__(kThreads, kBlocksPerMultiprocessor)
    touch_rows(const __grid_constant__ RowPass pass, int lane_bits) {
  const int words = static_cast<int>(pass.row_bytes / static_cast<int>(sizeof(Word)));
  const int lanes = 1 << lane_bits;
  const int lane = static_cast<int>(threadIdx.x) & (lanes - 1);
  const std::int64_t groups = (std::int64_t{gridDim.x} * kThreads) >> lane_bits;
  const std::int64_t group = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) >> lane_bits;
  Word* const rows = static_cast<Word*>(pass.rows);
  std::uint32_t seen = 0;
  for (std::int64_t first = group * kRowsInFlight; first < pass.touched; first += groups * kRowsInFlight) {
    const std::int64_t left = pass.touched - first;
    const int valid = left < kRowsInFlight ? static_cast<int>(left) : kRowsInFlight;
    int row[kRowsInFlight];  // numbers, not addresses: half the registers
#pragma unroll
    for (int r = 0; r < kRowsInFlight; ++r) row[r] = __ldg(pass.order + first + min(r, valid - 1));
#pragma unroll 1
    for (int w = lane; w < words; w += lanes) {
      Word read[kRowsInFlight];
#pragma unroll
      for (int r = 0; r < kRowsInFlight; ++r)
        read[r] = __ldcg(rows + std::int64_t{row[r]} * words + w);  // through L2 alone: no row is read twice
#pragma unroll
      for (int r = 0; r < kRowsInFlight; ++r) {
        if (r >= valid) continue;
        seen ^= folded(read[r]);
        if constexpr (kWrite) rows[std::int64_t{row[r]} * words + w] = flipped(read[r]);
      }
    }
  }
  seen = __reduce_xor_sync(0xffffffffu, seen);
  if (threadIdx.x % 32 == 0)
    atomicXor(pass.seen + (blockIdx.x * (kThreads / 32) + threadIdx.x / 32) % kSeenWords, seen);
}

// --- launchers -------------------------------------------------------------------------------------------------------

/// log2 of the lanes that share a row: as many as the row has words, at most a warp.
int lane_bits_of(std::int64_t words) {
  int bits = 0;
  while (bits < 5 && (std::int64_t{1} << bits) < words) ++bits;
  return bits;
}

template <typename Word>
void launch_words(const RowPass& pass, const LaunchContext& context) {
  const int lane_bits = lane_bits_of(pass.row_bytes / static_cast<std::int64_t>(sizeof(Word)));
  const std::int64_t rows_per_block = std::int64_t{kThreads >> lane_bits} * kRowsInFlight;
  const std::int64_t resident = std::int64_t{context.device.multiprocessors} * kBlocksPerMultiprocessor;
  const std::int64_t needed = device::ceil_div(pass.touched, rows_per_block);
  device::LaunchShape shape;
  shape.threads = kThreads;
  shape.grid = dim3(static_cast<unsigned>(needed < resident ? needed : resident));
  device::launch(pass.write_back ? touch_rows<Word, true> : touch_rows<Word, false>, shape, context, pass, lane_bits);
}

}  // namespace

void launch(const RowPass& pass, const LaunchContext& context) {
  LaunchContext plain = context;
  plain.dependent_launch = false;  // the kernel does not wait for its predecessor
  switch (word_bytes(pass.row_bytes)) {
    case 16: return launch_words<uint4>(pass, plain);
    case 8: return launch_words<uint2>(pass, plain);
    case 4: return launch_words<unsigned int>(pass, plain);
    default: return launch_words<unsigned short>(pass, plain);
  }
}

}  // namespace sdm::roof
