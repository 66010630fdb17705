#include <algorithm>

#include "kernels/common/launch.h"
#include "kernels/interactions/few_pairs.cuh"
#include "kernels/interactions/row_pairs.cuh"

namespace sdm::interactions {
namespace {

/// Four CTAs of 384 threads a multiprocessor, at 40 registers, or for more than 4096 entries two of 768.
constexpr int kFewThreads = 384, kMoreThreads = 768;
constexpr int kAhead = 3;  // vectors of four matches of a thread on their way

// --- kernel ----------------------------------------------------------------------------------------------------------

/// Zeros up to the diagonals and to the end of their sectors, a vector of four cells a thread. Rows r and c - 1 - r
/// together have one unit (a sector, or a vector) more than a row is long. Written through at once: 28.7 us at small120
/// on an H200 in place of 29.0.
__device__ __forceinline__ void clear_cells(const Params& p, std::int64_t chunk) {
  const int c = p.dims.chunk, unit = c % 8 == 0 ? 2 : 1, both = c / 4 + unit;  // in vectors
  const device::Divider by_both(both);
  for (int i = static_cast<int>(threadIdx.x); i < c / 2 * both; i += static_cast<int>(blockDim.x)) {
    const int r = by_both.quotient(i), vector = i - r * both, behind = vector - (r / (4 * unit) + 1) * unit;
    const int cell = behind < 0 ? r * c + 4 * vector : (c - 1 - r) * c + 4 * behind;
    const std::int64_t at = chunk * c * c + cell;
    __stwt(reinterpret_cast<float4*>(p.a + at), float4{});
    __stwt(reinterpret_cast<float4*>(p.qk + at), float4{});
  }
}

/// All rows of the chunk by warps, for which `memory` holds a list and two rows each. Not inline: its registers would
/// make the usual way spill.
__device__ __noinline__ void make_rows(const Members& members, std::int64_t chunk, void* memory) {
  const Params& p = members.p;
  const int c = p.dims.chunk, warps = static_cast<int>(blockDim.x / 32);
  auto* lists = static_cast<Pair*>(memory);
  float* row = reinterpret_cast<float*>(lists + kListed * warps) + device::warp_id() * 2 * c;
  for (int j = device::lane_id(); j < 2 * c; j += 32) row[j] = 0.0f;
  __syncwarp();
  for (int token = device::warp_id(); token < c; token += warps) {
    const std::int64_t first = chunk * c + token;
    if (token < p.dims.valid_tokens_of_chunk(chunk))
      make_row(members, {first * p.dims.writes, first * p.dims.reads, row, row + c}, token,
               lists + kListed * device::warp_id());
    __syncwarp();
    store_row(p, first * c, token, row);
    __syncwarp();
  }
}

/// grid: chunks. Shared: the payloads of the writes, then the lists (FewPairs, or those of make_rows()).
template <int kThreads>
__global__ void __launch_bounds__(kThreads, kThreads == kFewThreads ? 4 : 2)
    few_pairs_kernel(const __grid_constant__ Params p, const __grid_constant__ FewLayout layout) {
  device::wait_for_previous_grid();
  const std::int64_t chunk = blockIdx.x;
  const int n = p.dims.write_positions(), reads = p.dims.read_positions();
  const std::int64_t write_at = chunk * n, read_at = chunk * reads;
  auto* payload = reinterpret_cast<std::uint32_t*>(device::dynamic_shared());
  const FewPairs few(device::dynamic_shared() + 4 * static_cast<std::size_t>(n), layout);
  for (int i = 4 * static_cast<int>(threadIdx.x); i < n; i += 4 * kThreads)
    device::copy_async<16>(payload + i, p.writes.payload + write_at + i);
  device::commit_copies();
  int4 match[kAhead];
  const auto load_matches = [&](int base) {
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      const int i = base + 4 * b * kThreads;
      match[b] = i < reads ? *reinterpret_cast<const int4*>(p.reads.match + read_at + i) : make_int4(-1, -1, -1, -1);
    }
  };
  int base = 4 * static_cast<int>(threadIdx.x);
  load_matches(base);
  few.clear();
  device::wait_copies_but<0>();
  __syncthreads();
  list_writes(few, payload, n);
#pragma unroll 1
  while (base - 4 * device::lane_id() < reads) {
#pragma unroll
    for (int b = 0; b < kAhead; ++b)
      list_reads(few, payload, n, p.reads.payload + read_at, base + 4 * b * kThreads, match[b]);
    base += 4 * kAhead * kThreads;
    load_matches(base);
  }
  clear_cells(p, chunk);  // behind the loads
  __syncthreads();
  const int entries = *few.entries;
  const bool by_token = p.gate == Gate::token;
  const float* gates = p.g + chunk * (by_token ? p.dims.chunk : n);
  for (int x = static_cast<int>(threadIdx.x); x < min(entries, layout.entries); x += kThreads)
    make_pairs(p, few, write_at, read_at, payload, x, entries, [&](std::uint32_t member) {
      return gates[by_token ? token_of(member) : token_of(member) * p.dims.writes + entry_of(member)];
    });
  __syncthreads();
  const int pairs = entries + *few.more;
  if (entries <= layout.entries && pairs <= layout.pairs) return store_cells(p, chunk, few, pairs);
  __syncthreads();  // everyone knows the counts
  make_rows({p, payload, nullptr, write_at, p.dims.valid_tokens_of_chunk(chunk) * p.dims.writes}, chunk, few.entries);
}

// --- launchers -------------------------------------------------------------------------------------------------------

struct Plan {
  device::LaunchShape shape;
  FewLayout layout;
};

/// Pairs of a chunk with uniform slots, A and QK together.
double expected_pairs(const Dims& d) {
  return static_cast<double>(d.write_positions()) * (d.write_positions() + d.read_positions()) /
         (2 * static_cast<double>(d.slots));
}

Plan plan_of(const Params& p) {
  const Dims& d = p.dims;
  const auto c = static_cast<std::size_t>(d.chunk);
  const int expected = static_cast<int>(std::min(expected_pairs(d), 65536.0));
  const FewLayout layout{expected / 4 * 5 + 256, expected / 8 * 11 + 256, (2 * d.chunk * d.chunk + 31) / 32};
  const int threads = std::max(d.write_positions(), d.read_positions()) <= 4096 ? kFewThreads : kMoreThreads;
  const std::size_t rows = static_cast<std::size_t>(threads / 32) * (kListed * sizeof(Pair) + 2 * c * sizeof(float));
  const std::size_t bytes = 4 * static_cast<std::size_t>(d.write_positions()) + std::max(rows, few_bytes(layout));
  return {{dim3(static_cast<unsigned>(d.chunks())), threads, bytes}, layout};
}

std::string refuse(const Params& p, const Device& device) {
  const Dims& d = p.dims;
  if (d.chunk % 4 != 0 || d.write_positions() % 4 != 0 || d.read_positions() % 4 != 0)
    return "few_pairs takes four tokens or entries of a chunk at a time (group_pairs takes any number)";
  constexpr int kMost = 65535;  // 16-bit positions
  if (d.write_positions() > kMost)
    return "few_pairs takes at most " + std::to_string(kMost) + " writes a chunk, not " +
           std::to_string(d.write_positions()) + " (group_pairs takes any number)";
  const std::size_t needed = plan_of(p).shape.shared_bytes;
  if (needed <= device.shared_memory_per_block) return "";
  return "few_pairs needs " + std::to_string(needed) + " bytes of shared memory; this device gives " +
         std::to_string(device.shared_memory_per_block) + " a CTA (a smaller chunk, or group_pairs)";
}

/// Uniform slots would leave at least seven of eight cells empty (other slots cost a few us more than group_pairs), all
/// CTAs of a multiprocessor fit, and there are chunks for all multiprocessors.
bool suits(const Params& p, const Device& device) {
  const Dims& d = p.dims;
  const device::LaunchShape shape = plan_of(p).shape;
  constexpr std::size_t kReserved = 1024;  // of the driver, for each CTA
  const std::size_t ctas = shape.threads == kFewThreads ? 4 : 2;
  return std::int64_t{8} * d.writes * std::max(d.writes, d.reads) <= d.slots && d.chunks() >= device.multiprocessors &&
         ctas * (shape.shared_bytes + kReserved) <= device.shared_memory_per_multiprocessor;
}

void launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p);
  device::launch(plan.shape.threads == kFewThreads ? few_pairs_kernel<kFewThreads> : few_pairs_kernel<kMoreThreads>,
                 plan.shape, context, p, plan.layout);
}

std::string describe_launch(const Params& p, const LaunchContext&) {
  const Plan plan = plan_of(p);
  return device::describe(plan.shape) + ", up to " + std::to_string(plan.layout.pairs) + " pairs of a chunk listed";
}

}  // namespace

const Variant<Params> few_pairs = {
    .name = "few_pairs",
    .why = "few entries share a slot with another one of their chunk",
    .independent_of = "decay_sums",  // sums of gates are made anew
    .suits = suits,
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::interactions
