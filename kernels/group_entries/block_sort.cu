#include <bit>

#include "kernels/common/residency.cuh"
#include "kernels/group_entries/outputs.cuh"

namespace sdm::group_entries {
namespace {

// --- shared memory ---------------------------------------------------------------------------------------------------

/// Where one side's data lie, in bytes, and how its slots are cut. The table takes the inverse positions in the end,
/// the mask lists the long buckets at first.
struct SideLayout {
  int items, table, mask;
  int entry_bits, table_bits, shift;
};
struct Layout {
  SideLayout side[2];
  int bytes;
};

/// About one bucket an entry, no more than there are slots.
SideLayout side_layout(int positions, std::int64_t slots, int item_bytes, int& at) {
  const auto bits = [](std::int64_t values) { return std::bit_width(static_cast<std::uint64_t>(values - 1)); };
  SideLayout side{};
  side.entry_bits = static_cast<int>(bits(positions));
  side.table_bits = static_cast<int>(std::min(bits(slots), bits(positions)));
  side.shift = static_cast<int>(bits(slots)) - side.table_bits;
  const auto take = [&](int bytes) { return std::exchange(at, at + (bytes + 15) / 16 * 16); };
  side.items = take(positions * item_bytes);
  constexpr int kBefore = 16;  // the word before the table, and its alignment
  side.table = take(kBefore + 2 * std::max(positions, 1 << side.table_bits)) + kBefore;
  side.mask = take(4 * ((positions + 31) / 32));
  return side;
}

// --- kernels ---------------------------------------------------------------------------------------------------------

/// One side of a chunk in shared memory.
template <typename Packed>
struct Sorted {
  device::PackedList<Packed> list;
  device::BucketTable table;
  std::uint32_t* mask;

  __device__ __forceinline__ explicit Sorted(const SideLayout& side)
      : list{reinterpret_cast<Packed*>(device::dynamic_shared() + side.items), side.entry_bits},
        table{reinterpret_cast<std::uint32_t*>(device::dynamic_shared() + side.table), side.table_bits, side.shift},
        mask(reinterpret_cast<std::uint32_t*>(device::dynamic_shared() + side.mask)) {}

  /// Sorted position of the first entry of the slot, or -1. A bucket rarely holds more than a few items.
  __device__ __forceinline__ int find(std::uint32_t slot) const {
    const int bucket = static_cast<int>(slot >> table.shift), end = table.end(bucket);
    const Packed wanted = list.pack(slot, 0);
    int low = table.begin(bucket);
    if (end - low > device::kThreadItems) {
      int high = end;
      while (low < high) {
        const int middle = (low + high) / 2;
        if (list.items[middle] < wanted)
          low = middle + 1;
        else
          high = middle;
      }
    }
    while (low < end && list.items[low] < wanted) ++low;
    return low < end && list.get(low).key == slot ? low : -1;
  }
};

/// Where entries went, by entry: through shared memory, so that global stores are in order.
template <typename Team, typename Packed>
__device__ __forceinline__ void write_positions(const Team& team, const Segment& s, const Sorted<Packed>& sorted) {
  auto* position = reinterpret_cast<std::uint16_t*>(sorted.table.words);
  for (int i = team.thread; i < s.positions; i += team.threads)
    position[i < s.valid ? static_cast<int>(sorted.list.get(i).entry) : i] = static_cast<std::uint16_t>(i);
  team.sync();
  for (int e = team.thread; e < s.positions; e += team.threads) s.groups.position[s.at + e] = position[e];
}

/// Calls body.operator()<kSide>(): with the side known, the arguments stay in constant memory instead of registers.
template <typename Body>
__device__ __forceinline__ void with_side(int side, Body&& body) {
  if (side == 0)
    body.template operator()<0>();
  else
    body.template operator()<1>();
}

/// kBoth: a CTA sorts both sides of a chunk, half of its warps each, and joins them (61 us at default on an H200; two
/// radix passes and a join of its own took 214); else one side (blockIdx.y). Full multiprocessors (2048 threads) hide
/// the latency of shared memory; a single long side leaves room for 1024.
template <typename Packed, bool kBoth>
__global__ void __launch_bounds__(1024, kBoth ? device::kResidentThreads / 1024 : 1)
    block_sort_kernel(const __grid_constant__ Params p, const __grid_constant__ Layout layout) {
  __shared__ std::uint32_t totals[2][32];
  __shared__ int long_count[2];
  device::wait_for_previous_grid();
  const int threads = static_cast<int>(blockDim.x) / (kBoth ? 2 : 1);
  const int side = kBoth ? static_cast<int>(threadIdx.x) / threads : static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x) - (kBoth ? side * threads : 0);
  with_side(side, [&]<int kSide>() {
    const device::Team<kSide + 1> team{thread, threads};
    const Segment s = segment_of(p, blockIdx.x, kSide == 0 ? SideOf::writes : SideOf::reads);
    const Sorted<Packed> mine(layout.side[kSide]);
    const device::BucketScratch scratch{reinterpret_cast<std::uint16_t*>(mine.mask), totals[kSide], long_count + kSide};
    device::bucket_sort(team, mine.list, mine.table, scratch, s.valid, [&](int entry) { return s.slot_of(entry); });
  });
  __syncthreads();
  with_side(side, [&]<int kSide>() {
    const device::Team<kSide + 1> team{thread, threads};
    const Segment s = segment_of(p, blockIdx.x, kSide == 0 ? SideOf::writes : SideOf::reads);
    const Sorted<Packed> mine(layout.side[kSide]), other(layout.side[1 - kSide]);
    write_segment(team, s, mine.list, mine.mask, [&](const device::SortItem& item, int i) {
      if constexpr (kBoth) s.groups.match[s.at + i] = i < s.valid ? other.find(item.key) : -1;
    });
  });
  __syncthreads();  // nobody needs the tables any more
  with_side(side, [&]<int kSide>() {
    const device::Team<kSide + 1> team{thread, threads};
    const Segment s = segment_of(p, blockIdx.x, kSide == 0 ? SideOf::writes : SideOf::reads);
    write_positions(team, s, Sorted<Packed>(layout.side[kSide]));
  });
}

// --- launchers -------------------------------------------------------------------------------------------------------

struct Plan {
  Layout layout{};
  bool both = false, wide = false;  ///< wide: slot and entry need 64 bits
  device::LaunchShape shape;
};

Plan plan_of(const Params& p, const LaunchContext& context) {
  constexpr int kStatic = 1024 + 512;  // of the driver and of the kernel itself
  const int positions[2] = {p.dims.write_positions(), p.dims.read_positions()};
  const int largest = std::max(positions[0], positions[1]);
  Plan plan;
  const auto bits = std::bit_width(static_cast<std::uint64_t>(p.dims.slots - 1)) +
                    std::bit_width(static_cast<std::uint64_t>(largest - 1));
  plan.wide = bits > 32;
  int at = 0, longest = 0;
  for (int side = 0; side < 2; ++side) {
    int one = 0;
    plan.layout.side[side] = side_layout(positions[side], p.dims.slots, plan.wide ? 8 : 4, at);
    side_layout(positions[side], p.dims.slots, plan.wide ? 8 : 4, one);
    longest = std::max(longest, one);
  }
  plan.both = 2 * (static_cast<std::size_t>(at) + kStatic) <= context.device.shared_memory_per_multiprocessor;
  plan.layout.bytes = plan.both ? at : longest;
  if (!plan.both)
    for (int side = 0; side < 2; ++side) {
      int one = 0;
      plan.layout.side[side] = side_layout(positions[side], p.dims.slots, plan.wide ? 8 : 4, one);
    }
  // About 8 entries a thread: four CTAs of 512 (or two of 1024) fill a multiprocessor.
  int threads = std::clamp(std::bit_ceil(static_cast<unsigned>(plan.both ? 2 * largest : largest)) / 16, 128u, 1024u);
  if (context.geometry.warps >= 2 && context.geometry.warps <= 32) threads = 64 * (context.geometry.warps / 2);
  plan.shape = {
      plan.both ? dim3(static_cast<unsigned>(p.dims.chunks())) : dim3(static_cast<unsigned>(p.dims.chunks()), 2),
      threads, static_cast<std::size_t>(plan.layout.bytes)};
  return plan;
}

std::string refuse(const Params& p, const Device& device) {
  const int largest = std::max(p.dims.write_positions(), p.dims.read_positions());
  constexpr int kMost = 65535;  // 16-bit positions
  if (largest > kMost)
    return "block_sort takes at most " + std::to_string(kMost) + " entries a chunk, not " + std::to_string(largest) +
           " (a smaller chunk, fewer entries a token, or radix)";
  constexpr std::size_t kStatic = 1024;  // of the kernel itself and what the driver keeps
  LaunchContext context;
  context.device = device;
  const std::size_t needed = plan_of(p, context).shape.shared_bytes + kStatic;
  if (needed <= device.shared_memory_per_block) return "";
  return "block_sort needs " + std::to_string(needed) + " bytes of shared memory for " + std::to_string(largest) +
         " entries a chunk; this device gives " + std::to_string(device.shared_memory_per_block) +
         " a CTA (a smaller chunk, fewer entries a token, or radix)";
}

template <typename Packed>
void launch_packed(const Params& p, const Plan& plan, const LaunchContext& context) {
  device::launch(plan.both ? block_sort_kernel<Packed, true> : block_sort_kernel<Packed, false>, plan.shape, context, p,
                 plan.layout);
}

void launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  if (plan.wide)
    launch_packed<std::uint64_t>(p, plan, context);
  else
    launch_packed<std::uint32_t>(p, plan, context);
  if (!plan.both) launch_match(p, context);
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  return device::describe(plan.shape) + ", " + (plan.wide ? "64" : "32") + "-bit items, " +
         (plan.both ? "both sides of a chunk a CTA" : "a side of a chunk a CTA; then the match");
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
