#include "kernels/common/launch.h"
#include "kernels/load/load.h"

namespace sdm::load {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ std::uint64_t nanoseconds() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ __forceinline__ std::uint32_t multiprocessor() {
  std::uint32_t id;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(id));
  return id;
}

__device__ __forceinline__ std::uint32_t mixed(std::uint32_t x) {  // a bijection that scatters neighbours
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

__global__ void __launch_bounds__(kThreads) arithmetic_kernel(float* sink, int rounds) {
  constexpr int kChains = 8;
  float x[kChains];
  for (int i = 0; i < kChains; ++i) x[i] = static_cast<float>(threadIdx.x + i) * 1e-3f;
  for (int round = 0; round < rounds; ++round)
    for (int step = 0; step < 64 / kChains; ++step)
#pragma unroll
      for (int i = 0; i < kChains; ++i) x[i] = __fmaf_rn(x[i], 0.999f, 0.5f);
  float sum = 0;
  for (int i = 0; i < kChains; ++i) sum += x[i];
  if (threadIdx.x == 0) sink[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kThreads)
    thrash_kernel(std::uint32_t* buffer, std::uint64_t words, std::uint32_t seed, int rounds) {
  std::uint32_t state = mixed(seed ^ (blockIdx.x * kThreads + threadIdx.x));
  for (int round = 0; round < rounds; ++round) {
    state = mixed(state + 0x9e3779b9u);
    const std::uint64_t at = (static_cast<std::uint64_t>(state) * words) >> 32;
    buffer[at] += state;  // a race between threads is no harm: nobody reads the result
  }
}

__global__ void hold_half_kernel(HoldControl* control, std::uint32_t half, std::uint64_t limit_ns) {
  if (threadIdx.x == 0) {
    auto* shared = reinterpret_cast<volatile HoldControl*>(control);
    const std::uint64_t start = nanoseconds();
    const auto expired = [&] { return nanoseconds() - start > limit_ns; };
    atomicAdd_system(&control->arrived, 1u);
    // All must be there before any leaves, or late CTAs would take the place of those that left.
    while (shared->arrived < gridDim.x && !shared->release && !expired()) __nanosleep(500);
    if (multiprocessor() < half) {
      atomicAdd_system(&control->held, 1u);
      while (!shared->release && !expired()) __nanosleep(2000);
      if (!shared->release) shared->expired = 1;
    }
  }
  __syncthreads();
}

__global__ void add_in_any_order_kernel(float* element) {
  const std::uint32_t random = mixed(blockIdx.x * blockDim.x + threadIdx.x);
  const auto exponent = static_cast<int>(random & 15u) - 8;
  atomicAdd(element, ldexpf(static_cast<float>(random >> 8) * 0x1p-24f - 0.5f, exponent));
}

__global__ void keep_adding_kernel(float* element, std::uint64_t ns) {
  for (const std::uint64_t start = nanoseconds(); nanoseconds() - start < ns;) {
    atomicAdd(element, 1.0f);
    __nanosleep(200);
  }
}

__global__ void write_nowhere_kernel(float* nowhere) { *nowhere = 1.0f; }

__global__ void never_end_kernel(std::uint64_t never) {
  while (nanoseconds() != never) __nanosleep(1000);
}

}  // namespace

void arithmetic(float* sink, int blocks, int rounds, const LaunchContext& context) {
  arithmetic_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, device::stream_of(context)>>>(sink, rounds);
}

void thrash(std::uint32_t* buffer, std::uint64_t words, std::uint32_t seed, int blocks, int rounds,
            const LaunchContext& context) {
  thrash_kernel<<<static_cast<unsigned>(blocks), kThreads, 0, device::stream_of(context)>>>(buffer, words, seed,
                                                                                            rounds);
}

void hold_half(HoldControl* control, int threads_per_multiprocessor, std::uint64_t limit_ns,
               const LaunchContext& context) {
  const auto count = static_cast<unsigned>(context.device.multiprocessors);
  const auto threads =
      static_cast<unsigned>(threads_per_multiprocessor / 2 < 1024 ? threads_per_multiprocessor / 2 : 1024);
  hold_half_kernel<<<2 * count, threads, 0, device::stream_of(context)>>>(control, count / 2, limit_ns);
}

void add_in_any_order(float* element, const LaunchContext& context) {
  add_in_any_order_kernel<<<256, kThreads, 0, device::stream_of(context)>>>(element);
}

void keep_adding(float* element, std::uint64_t ns, const LaunchContext& context) {
  keep_adding_kernel<<<1, 1, 0, device::stream_of(context)>>>(element, ns);
}

void write_nowhere(const LaunchContext& context) {
  // An address that the host hands over: a constant null one would be undefined behaviour that a compiler may drop.
  write_nowhere_kernel<<<1, 1, 0, device::stream_of(context)>>>(reinterpret_cast<float*>(std::uintptr_t{16}));
}

void never_end(const LaunchContext& context) { never_end_kernel<<<1, 1, 0, device::stream_of(context)>>>(0); }

}  // namespace sdm::load
