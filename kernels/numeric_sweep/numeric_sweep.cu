#include "kernels/common/code_quads.cuh"
#include "kernels/common/launch.h"
#include "kernels/common/rows.cuh"
#include "kernels/numeric_sweep/numeric_sweep.h"

namespace sdm::sweep {
namespace {

constexpr int kThreads = 256;

/// What kernels compute in place of the host's output_of.
template <Function f>
__device__ __forceinline__ std::uint32_t device_output(std::uint32_t word) {
  float four[4];
  if constexpr (f == Function::four_e4m3) {
    device::widen_e4m3<true>(word, four);
    return joined_bits(four);
  } else if constexpr (f == Function::four_int4) {
    device::widen_int4<true>(word, four);
    return joined_bits(four);
  } else {
    return output_of<f>(word);
  }
}

/// Calls visit(input, output) for this thread's inputs of a block; of a dot, lane 0 alone speaks.
template <Function f, typename Visit>
__device__ __forceinline__ void each_input(std::uint32_t block, std::uint64_t fault, Visit&& visit) {
  const std::uint32_t first = block * kBlock;
  if constexpr (is_dot(f)) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (std::uint32_t i = threadIdx.x / 32; i < kBlock / 32; i += kThreads / 32) {
      const std::uint32_t number = first / 32 + i;
      const float partial = lane_partial(number, lane);
      const float sum =
          f == Function::near_dot ? device::tree_sum_near_first(partial) : device::tree_sum_far_first(partial);
      if (lane == 0) visit(number * 32u, canonical_bits(sum) ^ (number * 32ull == fault ? 1u : 0u));
    }
  } else {
    for (std::uint32_t i = threadIdx.x; i < kBlock; i += kThreads)
      visit(first + i, device_output<f>(first + i) ^ (first + i == fault ? 1u : 0u));
  }
}

template <Function f>
__global__ void __launch_bounds__(kThreads) sums_kernel(std::uint64_t* sums, std::uint64_t fault) {
  __shared__ unsigned long long total;
  if (threadIdx.x == 0) total = 0;
  __syncthreads();
  unsigned long long mine = 0;
  each_input<f>(blockIdx.x, fault, [&](std::uint32_t input, std::uint32_t output) { mine += term(input, output); });
  atomicAdd(&total, mine);  // integers: any order, one sum
  __syncthreads();
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

template <Function f>
__global__ void __launch_bounds__(kThreads)
    outputs_kernel(std::uint32_t* outputs, std::uint32_t block, std::uint64_t fault) {
  each_input<f>(block, fault, [&](std::uint32_t input, std::uint32_t output) {
    outputs[(input - block * kBlock) / (is_dot(f) ? 32u : 1u)] = output;
  });
}

/// Calls body.template operator()<f>() for a function known at run time.
template <int i = 0, typename Body>
void dispatch(Function f, Body&& body) {
  if constexpr (i < kFunctions) {
    if (static_cast<int>(f) == i) return body.template operator()<static_cast<Function>(i)>();
    dispatch<i + 1>(f, body);
  }
}

}  // namespace

void launch_sums(Function f, std::uint64_t* sums, std::uint32_t blocks, std::uint64_t fault,
                 const LaunchContext& context) {
  dispatch(f, [&]<Function which>() {
    sums_kernel<which><<<blocks, kThreads, 0, device::stream_of(context)>>>(sums, fault);
  });
}

void launch_outputs(Function f, std::uint32_t* outputs, std::uint32_t block, std::uint64_t fault,
                    const LaunchContext& context) {
  dispatch(f, [&]<Function which>() {
    outputs_kernel<which><<<1, kThreads, 0, device::stream_of(context)>>>(outputs, block, fault);
  });
}

}  // namespace sdm::sweep
