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
  const int tiles = p.value_dim / S::kColumns, stream = static_cast<int>(blockIdx.x) / tiles;
  const Place place{stream / p.heads, stream % p.heads, static_cast<int>(blockIdx.x) % tiles * S::kColumns};
  if (threadIdx.x == 0) Barriers<S>{base}.init();
  __syncthreads();
  device::wait_for_previous_grid();
  if (threadIdx.x / 128 == S::kGroups) {
    share_registers<S, true>();
    if (threadIdx.x % 128 == 0) feed_ring<S>(p, maps, place, base);
    if (S::kDq && threadIdx.x % 128 == 32) feed_query<S>(p, maps, place, base);
  } else {
    share_registers<S, false>();
    Worker<S>{p, maps, place, base}.walk();
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

/// Columns of V a CTA: the most, since w and kg are then read least often, unless the grid would leave half of the GPU
/// idle. The geometry's tile overrides it.
int columns_of(const Params& p, const LaunchContext& context) {
  const int asked = context.geometry.tile;
  if ((asked == 64 || asked == 128 || asked == 256) && p.value_dim % asked == 0) return asked;
  int columns = 256;
  while (p.value_dim % columns != 0) columns /= 2;
  while (columns > 64 && 2 * p.streams() * (p.value_dim / columns) <= context.device.multiprocessors) columns /= 2;
  return columns;
}

/// dq within the re-scan: always by atomics, ordered where a CTA owns all of V. Else it follows from the checkpoints.
bool dq_inside(const Params& p, int columns) {
  return p.dq_mode == DqMode::atomic || (p.dq_mode == DqMode::ordered && columns == p.value_dim);
}

template <typename Body>
void dispatch_shape(const Params& p, int columns, Body&& body) {
  dispatch_half(p.io, [&]<typename T>() {
    dispatch_value<64, 128>(
        p.key_dim, [&]<auto kK>() {
          dispatch_value<64, 128, 256>(
              columns, [&]<auto kColumns>() {
                if (dq_inside(p, columns))
                  body.template operator()<Shape<T, kK, kColumns, true>>();
                else
                  body.template operator()<Shape<T, kK, kColumns, false>>();
              });
        });
  });
}

template <typename S>
device::LaunchShape shape_of(const Params& p) {
  const std::int64_t ctas = p.streams() * (p.value_dim / S::kColumns);
  return {.grid = dim3(static_cast<unsigned>(ctas)),
          .threads = S::kThreads,
          .shared_bytes = static_cast<std::size_t>(S::Memory::kBytes) + 1024};
}

std::string refuse(const Params& p, const Device& device) {
  if (device.compute_capability != 90 || device.force_portable)
    return "wgmma is built for compute capability 9.0 (warpgroup products, tensor copies); mma runs on any GPU since "
           "8.0";
  if (device.shared_memory_per_block < 232448)
    return std::string("a block needs 232448 bytes of shared memory; this device gives ")
        .append(std::to_string(device.shared_memory_per_block));
  const std::int64_t widest = std::int64_t{p.heads} * (p.key_dim > p.value_dim ? p.key_dim : p.value_dim);
  if (widest >= std::int64_t{1} << 31 || p.streams() * (p.value_dim / kTile) >= std::int64_t{1} << 31)
    return "heads times columns and the grid must stay below 2^31";
  return refuse_sizes(p);
}

void launch(const Params& p, const LaunchContext& context) {
  const int columns = columns_of(p, context);
  const bool inside = dq_inside(p, columns);
  if (inside && p.dq_mode == DqMode::atomic) clear_dq(p, context);
  const Maps maps = make_maps(p);
  dispatch_shape(p, columns, [&]<typename S>() { device::launch(wgmma_kernel<S>, shape_of<S>(p), context, p, maps); });
  if (p.dq_mode != DqMode::off && !inside) launch_query(p, context);
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const int columns = columns_of(p, context);
  std::string text;
  dispatch_shape(p, columns, [&]<typename S>() {
    text.append(device::describe(shape_of<S>(p))).append(", depth ").append(std::to_string(S::Memory::kStages));
  });
  text.append(", ").append(std::to_string(columns)).append(" columns a block");
  if (p.dq_mode != DqMode::off && !dq_inside(p, columns)) text.append("; ").append(describe_query(p));
  return text;
}

}  // namespace

const Variant<Params> wgmma = {
    .name = "wgmma",
    .why = "Hopper: the fastest, bounded by memory",
    .guarantee = Guarantee::repeatable,
    .automatic = true,
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::dense_rescan
