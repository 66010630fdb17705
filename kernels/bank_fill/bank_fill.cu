#include "kernels/bank_fill/bank_fill.h"

#include "kernels/common/launch.h"
#include "workload/bank_value.h"

namespace sdm::bank_fill {
namespace {

constexpr int kThreads = 256;

struct alignas(8) Bf16Quad {
  std::uint16_t bits[4];
};

__device__ __forceinline__ void store(const RandomBlock& block, float4* out) {
  *out = {signed_unit(block.word[0]), signed_unit(block.word[1]), signed_unit(block.word[2]),
          signed_unit(block.word[3])};
}

__device__ __forceinline__ void store(const RandomBlock& block, Bf16Quad* out) {
  Bf16Quad quad;
#pragma unroll
  for (int j = 0; j < 4; ++j) quad.bits[j] = bf16_bits_of_finite(signed_unit(block.word[j]));
  *out = quad;
}

/// One random block a thread and turn. The last quad may reach past `count`: it is stored by elements.
template <typename Element, typename Quad>
__global__ void __launch_bounds__(kThreads) fill_quads(const __grid_constant__ Fill fill) {
  const Purpose purpose = fill.gradient ? Purpose::gradient_bank : Purpose::memory_bank;
  const std::int64_t stride = std::int64_t{gridDim.x} * kThreads;
  for (std::int64_t quad = std::int64_t{blockIdx.x} * kThreads + threadIdx.x; quad * 4 < fill.count; quad += stride) {
    const RandomBlock block = bank_block(fill.seed, purpose, static_cast<std::uint64_t>(quad));
    if (quad * 4 + 4 <= fill.count) {
      store(block, static_cast<Quad*>(fill.bank) + quad);
      continue;
    }
    Quad last;
    store(block, &last);
    for (std::int64_t i = quad * 4; i < fill.count; ++i)
      static_cast<Element*>(fill.bank)[i] = reinterpret_cast<const Element*>(&last)[i - quad * 4];
  }
}

}  // namespace

void launch(const Fill& fill, const LaunchContext& context) {
  constexpr int kBlocksPerMultiprocessor = 8;
  LaunchContext plain = context;
  plain.dependent_launch = false;  // the kernel does not wait for its predecessor
  device::LaunchShape shape;
  shape.threads = kThreads;
  shape.grid = dim3(static_cast<unsigned>(context.device.multiprocessors * kBlocksPerMultiprocessor));
  if (fill.dtype == DType::bf16)
    device::launch(fill_quads<std::uint16_t, Bf16Quad>, shape, plain, fill);
  else
    device::launch(fill_quads<float, float4>, shape, plain, fill);
}

}  // namespace sdm::bank_fill
