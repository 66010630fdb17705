// dense_rescan, variant `wgmma`: one CTA owns 64, 128 or 256 columns of V of one stream and walks all chunks. Warpgroup
// products read operands from shared memory, where the copy engine puts chunks a ring of stages ahead; the state stays
// in accumulators. Its rounded copy in shared memory is operand and checkpoint at once, v_new takes u's place in the
// stage: both leave by the copy engine while the products run. Where a CTA owns all of V, dq needs no sum across CTAs.
#include "kernels/dense_rescan/wgmma_walk.cuh"

namespace sdm::dense_rescan {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

/// Registers of a warpgroup; with two that compute, the feeding one gives up what they need.
template <typename S, bool kFeeds>
__device__ __forceinline__ void share_registers() {
  if constexpr (S::kGroups == 2 && kFeeds) asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
  if constexpr (S::kGroups == 2 && !kFeeds) asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
}

template <typename S>
__global__ void __launch_bounds__(S::kThreads, 1)
    wgmma_kernel(const __grid_constant__ Params p, const __grid_constant__ Maps maps) {
  extern __shared__ unsigned char memory[];
  const std::uint32_t base = (shared_address(memory) + 1023u) & ~1023u;
  const Place place = place_of<S>(p);
  if (threadIdx.x == 0) Barriers<S>{base}.init();
  __syncthreads();
  device::wait_for_previous_grid();
  // Shuffled so that the compiler knows it to be the same in a warp; else it waits after every single product.
  if (__shfl_sync(~0u, threadIdx.x / 128, 0) == S::kGroups) {
    share_registers<S, true>();
    if (threadIdx.x % 128 == 0) feed_ring<S>(p, maps, place, base);
    if (S::kDq && threadIdx.x % 128 == 32) feed_query<S>(p, maps, place, base);
  } else {
    share_registers<S, false>();
    Worker<S>{{p, maps, place, base}}.walk();
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

std::string refuse(const Params& p, const Device& device) {
  if (device.compute_capability != 90 || device.force_portable)
    return "wgmma is built for compute capability 9.0 (warpgroup products, tensor copies); mma runs on any GPU since "
           "8.0";
  return refuse_ring(p, device);
}

struct Kernel {
  template <typename S>
  static auto of() {
    return &wgmma_kernel<S>;
  }
};

}  // namespace

const Variant<Params> wgmma = {
    .name = "wgmma",
    .why = "Hopper: the fastest, bounded by memory",
    .guarantee = Guarantee::repeatable,
    .automatic = true,
    .refuse = refuse,
    .launch = launch_ring<Kernel>,
    .describe = describe_ring,
};

}  // namespace sdm::dense_rescan
