#include <bit>

#include "kernels/group_entries/sorted_side.cuh"

namespace sdm::group_entries {
namespace {

struct Layout {
  SideLayout side[2];
  int bytes;
  bool fours;  ///< 32-bit indices, and both sides have a multiple of four entries
};

// --- kernels ---------------------------------------------------------------------------------------------------------

/// Calls body.operator()<kSide>(): with the side known, the arguments stay in constant memory instead of registers.
template <typename Body>
__device__ __forceinline__ void with_side(int side, Body&& body) {
  if (side == 0)
    body.template operator()<0>();
  else
    body.template operator()<1>();
}

/// Of a CTA. Both sides: two CTAs, or four of half the threads, leave 42 registers a thread: 48 us at default on an
/// H200, with 32 of them and full multiprocessors 50.
template <bool kBoth>
constexpr int kMostThreads = kBoth ? 768 : 1024;

/// Static shared memory.
struct Counters {
  std::uint32_t totals[2][32];
  int long_count[2];
};

/// A CTA's work. kWhole: no position of the chunk is padding, indices have 32 bits and go four at a time; without tests
/// for all that default took 43 us on an H200, with them 47.
template <bool kWhole, bool kBoth, typename Packed>
__device__ __forceinline__ void sort_chunk(const Params& p, const Layout& layout, Counters& counters) {
  const int threads = static_cast<int>(blockDim.x) / (kBoth ? 2 : 1);
  const int side = kBoth ? static_cast<int>(threadIdx.x) / threads : static_cast<int>(blockIdx.y);
  const int thread = static_cast<int>(threadIdx.x) - (kBoth ? side * threads : 0);
  const auto segment = [&](int of) { return segment_of(p, blockIdx.x, of == 0 ? SideOf::writes : SideOf::reads); };
  auto* matches = reinterpret_cast<std::uint16_t*>(Sorted<Packed>(layout.side[1]).table.words);
  with_side(side, [&]<int kSide>() {
    const device::Team<kSide + 1> team{thread, threads};
    const Segment s = segment(kSide);
    const Sorted<Packed> mine(layout.side[kSide]);
    const device::BucketScratch scratch{reinterpret_cast<std::uint16_t*>(mine.mask), counters.totals[kSide],
                                        counters.long_count + kSide};
    device::bucket_sort(team, mine.list, mine.table, scratch, s.valid,
                        [&](auto&& use) { for_slots<kWhole>(team, s, use); });
    if constexpr (kBoth && kSide == 1)  // nobody looks into the table of the reads
      for (int v = team.thread; v < (p.dims.write_positions() + 7) / 8; v += team.threads)
        reinterpret_cast<uint4*>(matches)[v] = make_uint4(~0u, ~0u, ~0u, ~0u);
  });
  __syncthreads();
  with_side(side, [&]<int kSide>() {
    write_sorted<kWhole>(device::Team<kSide + 1>{thread, threads}, segment(kSide), Sorted<Packed>(layout.side[kSide]));
  });
  if constexpr (kBoth)
    find_matches<kWhole>(device::whole_cta(), segment(1), segment(0), Sorted<Packed>(layout.side[1]),
                         Sorted<Packed>(layout.side[0]), matches);
  __syncthreads();  // nobody needs the tables any more
  const auto write_rest = [&]<int kSide>() {
    const device::Team<kSide + 1> team{thread, threads};
    const Segment s = segment(kSide);
    const Sorted<Packed> mine(layout.side[kSide]);
    if (team.warp() == 0) write_windows(s, mine.mask);
    write_positions<kWhole>(team, s, mine);
  };
  if constexpr (!kBoth) return with_side(side, write_rest);
  if (side == 0) write_matches<kWhole>(device::Team<1>{thread, threads}, segment(0), matches);
  if (side == 0) write_rest.template operator()<0>();
  __syncthreads();  // the matches were read
  if (side == 1) write_rest.template operator()<1>();
}

/// kBoth: a CTA sorts both sides of a chunk, half of its warps each, and joins them (two radix passes and a join of its
/// own took 214 us at default); else one side (blockIdx.y).
template <typename Packed, bool kBoth>
__global__ void __launch_bounds__(kMostThreads<kBoth>, kBoth ? 2 : 1)
    block_sort_kernel(const __grid_constant__ Params p, const __grid_constant__ Layout layout) {
  __shared__ Counters counters;
  device::wait_for_previous_grid();
  const bool whole = layout.fours && p.dims.valid_tokens_of_chunk(blockIdx.x) == p.dims.chunk;
  if (whole)
    sort_chunk<true, kBoth, Packed>(p, layout, counters);
  else
    sort_chunk<false, kBoth, Packed>(p, layout, counters);
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
  plan.layout.fours = p.k_idx.dtype == DType::i32 && p.q_idx.dtype == DType::i32 && positions[0] % kFour == 0 &&
                      positions[1] % kFour == 0;
  const auto side_at = [&](int side, int most, int& at) {
    plan.layout.side[side] = side_layout(positions[side], most, p.dims.slots, plan.wide ? 8 : 4, at);
  };
  plan.layout.bytes = 0;
  for (int side = 0; side < 2; ++side) side_at(side, largest, plan.layout.bytes);
  plan.both =
      2 * (static_cast<std::size_t>(plan.layout.bytes) + kStatic) <= context.device.shared_memory_per_multiprocessor;
  if (!plan.both) {
    plan.layout.bytes = 0;
    for (int side = 0; side < 2; ++side) {
      int bytes = 0;
      side_at(side, positions[side], bytes);
      plan.layout.bytes = std::max(plan.layout.bytes, bytes);
    }
  }
  // Of both sides about 21 entries a thread, and 11 where two CTAs a multiprocessor hold all chunks (wide960 took 29 us
  // on an H200, and 33 with 21); of one side 16 to 32.
  const int most = plan.both ? kMostThreads<true> : kMostThreads<false>;
  const int entries = static_cast<int>(std::bit_ceil(static_cast<unsigned>(largest)));
  const bool few = p.dims.chunks() <= 2 * context.device.multiprocessors;
  int threads = std::clamp(plan.both ? entries / 32 * (few ? 6 : 3) : entries / 16, plan.both ? 192 : 128, most);
  if (context.geometry.warps >= 2) threads = std::min(64 * (context.geometry.warps / 2), most);
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
