// dense_rescan, variant `tcgen05`: the plan of the wgmma variant on Blackwell. State and products lie in tensor memory,
// one thread begins the products, transaction barriers order them against the warpgroups that round, decay and store.
// Compiled for sm_100a; it has never run (docs/dense.md).
#include "kernels/dense_rescan/tcgen05_walk.cuh"

namespace sdm::dense_rescan {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

template <typename S>
__global__ void __launch_bounds__(S::kThreads, 1)
    tcgen05_kernel(const __grid_constant__ Params p, const __grid_constant__ Maps maps) {
  extern __shared__ unsigned char memory[];
  const std::uint32_t base = (shared_address(memory) + 1023u) & ~1023u;
  const Place place = place_of<S>(p);
  const TensorBarriers<S> barriers{{base}};
  const int warp = static_cast<int>(threadIdx.x) / 32, role = static_cast<int>(threadIdx.x) - 128 * S::kGroups;
  device::wait_for_previous_grid();  // before the allocation: the previous grid holds tensor memory
  if (threadIdx.x == 0) barriers.init();
  __syncwarp();
  if (warp == 0) allocate_columns(barriers.slot(), TensorColumns<S>::kAllocated);
  fence_before_sync();
  __syncthreads();
  fence_after_sync();
  std::uint32_t tensor;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(tensor) : "r"(barriers.slot()) : "memory");

  if (role == 0) feed_ring<S>(p, maps, place, base);
  if (S::kDq && role == 32) feed_query<S>(p, maps, place, base);
  if (role == 64) issue_products<S>(p, base, tensor);
  if (role < 0) TensorWorker<S>{{p, maps, place, base}, tensor}.walk();

  __syncwarp();
  fence_before_sync();
  __syncthreads();
  if (warp == 0) free_columns(tensor, TensorColumns<S>::kAllocated);
}

// --- launchers -------------------------------------------------------------------------------------------------------

std::string refuse(const Params& p, const Device& device) {
  if (device.compute_capability != 100 || device.force_portable)
    return std::string(
               "tcgen05 is built for compute capability 10.0 (tensor memory) and not run here: this device has ")
        .append(std::to_string(device.compute_capability / 10))
        .append(".")
        .append(std::to_string(device.compute_capability % 10));
  return refuse_ring(p, device);
}

struct Kernel {
  template <typename S>
  static auto of() {
    return &tcgen05_kernel<S>;
  }
};

}  // namespace

const Variant<Params> tcgen05 = {
    .name = "tcgen05",
    .why = "Blackwell (sm_100a): compiled, not run on any GPU yet",
    .guarantee = Guarantee::repeatable,
    .automatic = false,  // until it has run
    .refuse = refuse,
    .launch = launch_ring<Kernel>,
    .describe = describe_ring,
};

}  // namespace sdm::dense_rescan
