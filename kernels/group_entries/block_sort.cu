#include "kernels/group_entries/outputs.cuh"

namespace sdm::group_entries {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

/// Shared memory, in order: digit counters [warps][256] u32 (later the FIRST bits), keys [n], two orders [n] u16.
template <typename Key>
__global__ void __launch_bounds__(1024) block_sort_kernel(const __grid_constant__ Params p, int counter_words) {
  device::wait_for_previous_grid();
  const Segment s = segment_of(p, blockIdx.x, blockIdx.y == 0 ? SideOf::writes : SideOf::reads);
  const int threads = static_cast<int>(blockDim.x);
  auto* counter = reinterpret_cast<std::uint32_t*>(device::dynamic_shared());
  Key* key = reinterpret_cast<Key*>(counter + counter_words);
  auto* order = reinterpret_cast<std::uint16_t*>(key + s.positions);
  device::KeyedOrder<Key> items{key, order, order + s.positions};
  for (int e = static_cast<int>(threadIdx.x); e < s.valid; e += threads) {
    key[e] = static_cast<Key>(device::index_at(s.index, s.at + e) - s.base);
    items.in[e] = static_cast<std::uint16_t>(e);
  }
  __syncthreads();
  device::radix_sort(items, s.valid, p.dims.slots, counter);
  std::uint16_t* position = items.out;
  write_segment(s, items, counter, [&](int entry, int i) { position[entry] = static_cast<std::uint16_t>(i); });
  __syncthreads();
  for (int e = static_cast<int>(threadIdx.x); e < s.positions; e += threads) s.groups.position[s.at + e] = position[e];
}

// --- launchers -------------------------------------------------------------------------------------------------------

constexpr std::int64_t kSmallKeys = 65536;

int largest_side(const Params& p) {
  return p.dims.chunk * (p.dims.writes > p.dims.reads ? p.dims.writes : p.dims.reads);
}

device::LaunchShape shape_of(const Params& p, const Geometry& geometry) {
  const int n = largest_side(p);
  int threads = n <= 1024 ? 256 : (n <= 8192 ? 512 : 1024);
  // The digit scan takes 256 threads.
  if (geometry.warps >= 8 && geometry.warps <= 32) threads = 32 * geometry.warps;
  const std::size_t counters = static_cast<std::size_t>(threads / 32) * device::kSortDigits * 4;
  const std::size_t bits = static_cast<std::size_t>((n + 31) / 32) * 4;
  const std::size_t item = p.dims.slots <= kSmallKeys ? 6 : 8;
  return {dim3(static_cast<unsigned>(p.dims.chunks()), 2), threads,
          (counters > bits ? counters : bits) + item * static_cast<std::size_t>(n)};
}

std::string refuse(const Params& p, const Device& device) {
  constexpr std::size_t kStatic = 1024;  // of the kernel itself and what the driver keeps
  const std::size_t needed = shape_of(p, {}).shared_bytes + kStatic;
  if (needed <= device.shared_memory_per_block) return "";
  return "block_sort needs " + std::to_string(needed) + " bytes of shared memory for " +
         std::to_string(largest_side(p)) + " entries a chunk; this device gives " +
         std::to_string(device.shared_memory_per_block) + " a CTA (a smaller chunk, fewer entries a token, or radix)";
}

void launch(const Params& p, const LaunchContext& context) {
  device::LaunchShape shape = shape_of(p, context.geometry);
  if (shape.shared_bytes + 1024 > context.device.shared_memory_per_block) shape = shape_of(p, {});
  const std::size_t item = p.dims.slots <= kSmallKeys ? 6 : 8;
  const int counter_words =
      static_cast<int>((shape.shared_bytes - item * static_cast<std::size_t>(largest_side(p))) / 4);
  if (p.dims.slots <= kSmallKeys)
    device::launch(block_sort_kernel<std::uint16_t>, shape, context, p, counter_words);
  else
    device::launch(block_sort_kernel<std::uint32_t>, shape, context, p, counter_words);
  launch_match(p, context);
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  return device::describe(shape_of(p, context.geometry)) + ", " + (p.dims.slots <= kSmallKeys ? "16" : "32") +
         "-bit keys, 8-bit digits; then the match";
}

}  // namespace

const Variant<Params> block_sort = {
    .name = "block_sort",
    .why = "a chunk's entries fit in the shared memory of one CTA",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::group_entries
