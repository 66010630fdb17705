#include <algorithm>

#include "kernels/common/launch.h"
#include "kernels/common/prefetch.cuh"
#include "kernels/interactions/row_pairs.cuh"

namespace sdm::interactions {
namespace {

/// Four CTAs of 384 threads fit a multiprocessor at 40 registers: 512 chunks are one wave on 132 of them. 32 us at
/// default on an H200; a pair at a time by the whole warp, in two waves, took 75.
constexpr int kFewThreads = 384, kMoreThreads = 768, kManyThreads = 1024;

// --- kernels ---------------------------------------------------------------------------------------------------------

/// Brings a row's entries to L2 while the row before it is worked on.
__device__ __forceinline__ void prefetch_row(const Params& p, std::int64_t write_at, std::int64_t read_at) {
  constexpr int kLine = 32;  // 4-byte values
  const int first = kLine * device::lane_id();
  if (first < p.dims.writes) {
    device::prefetch_l2(p.writes.position + write_at + first);
    device::prefetch_l2(p.log_k + write_at + first);
  }
  if (first < p.dims.reads) {
    device::prefetch_l2(p.reads.position + read_at + first);
    device::prefetch_l2(p.log_q + read_at + first);
  }
}

/// Stages the payloads of the chunk's writes and (`matched`) the matches of its reads.
__device__ __forceinline__ void stage_chunk(Members& members, std::int64_t read_at, std::uint32_t* staged, bool vectors,
                                            bool matched) {
  const int threads = static_cast<int>(blockDim.x), thread = static_cast<int>(threadIdx.x);
  if (vectors)
    for (int i = 4 * thread; i < members.valid; i += 4 * threads)
      device::copy_async<16>(staged + i, members.payload + i);
  else
    for (int i = thread; i < members.valid; i += threads) device::copy_async<4>(staged + i, members.payload + i);
  device::commit_copies();
  members.payload = staged;
  if (!matched) return;
  auto* matches = reinterpret_cast<std::uint16_t*>(staged + members.p.dims.write_positions());
  const std::int32_t* match = members.p.reads.match + read_at;
  device::in_batches<4>(
      thread, threads, members.p.dims.read_positions(), [&](int i) { return match[i]; },
      [&](int i, std::int32_t first) { matches[i] = first < 0 ? kNoMatch : static_cast<std::uint16_t>(first); });
  members.match = matches;
}

/// A CTA handles `tokens` rows of a chunk, a warp a row at a time. Shared: the warps' lists and rows, then (kStaged)
/// the payloads of the chunk's writes and (`matched`) the matches of its reads.
template <bool kStaged, int kThreads>
__global__ void __launch_bounds__(kThreads, kThreads == kFewThreads ? 4 : (kThreads == kMoreThreads ? 2 : 1))
    group_pairs_kernel(const __grid_constant__ Params p, int blocks, int tokens, bool matched) {
  device::wait_for_previous_grid();
  const std::int64_t chunk = blockIdx.x / static_cast<unsigned>(blocks);
  const int begin = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks)) * tokens, c = p.dims.chunk;
  const int valid_tokens = p.dims.valid_tokens_of_chunk(chunk), n = p.dims.write_positions();
  const int warps = static_cast<int>(blockDim.x / 32);
  auto* lists = reinterpret_cast<Pair*>(device::dynamic_shared());
  float* rows = reinterpret_cast<float*>(lists + kListed * warps);
  Pair* list = lists + kListed * device::warp_id();
  float* row = rows + device::warp_id() * 2 * c;  // of A, then of QK
  const std::int64_t write_at = chunk * n, read_at = chunk * p.dims.read_positions();
  Members members{p, p.writes.payload + write_at, nullptr, write_at, valid_tokens * p.dims.writes};
  if constexpr (kStaged)
    stage_chunk(members, read_at, reinterpret_cast<std::uint32_t*>(rows + warps * 2 * c),
                n % 4 == 0 && c * warps % 2 == 0, matched);  // vectors: 16-byte aligned on both sides
  for (int j = device::lane_id(); j < 2 * c; j += 32) row[j] = 0.0f;
  if constexpr (kStaged) device::wait_copies_but(0);
  __syncthreads();
  const int end = min(begin + tokens, c);
  for (int token = begin + device::warp_id(); token < end; token += warps) {
    const PairRow at{write_at + std::int64_t{token} * p.dims.writes, read_at + std::int64_t{token} * p.dims.reads, row,
                     row + c};
    if (token + warps < min(end, valid_tokens))
      prefetch_row(p, at.write_at + std::int64_t{warps} * p.dims.writes,
                   at.read_at + std::int64_t{warps} * p.dims.reads);
    if (token < valid_tokens) make_row(members, at, token, list);
    __syncwarp();
    store_row(p, (chunk * c + token) * c, token, row);
    __syncwarp();
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

struct Plan {
  device::LaunchShape shape;
  int blocks, tokens;    // CTAs a chunk, rows a CTA
  bool staged, matched;  // payloads, matches in shared memory
};

Plan plan_of(const Params& p, const LaunchContext& context) {
  constexpr std::size_t kReserved = 1024;  // of a multiprocessor's shared memory, for each CTA
  const auto c = static_cast<std::size_t>(p.dims.chunk), n = static_cast<std::size_t>(p.dims.write_positions());
  Plan plan{};
  const auto reads = static_cast<std::size_t>(p.dims.read_positions());
  int warps = kFewThreads / 32;
  const auto bytes = [&](int w) {
    return static_cast<std::size_t>(w) * (kListed * sizeof(Pair) + 2 * c * 4) + (plan.staged ? n * 4 : 0) +
           (plan.matched ? (reads + 1) / 2 * 4 : 0);
  };
  const auto fits = [&](int threads, std::size_t ctas) {
    return ctas * (bytes(threads / 32) + kReserved) <= context.device.shared_memory_per_multiprocessor;
  };
  const auto fits_one = [&] { return bytes(warps) + kReserved <= context.device.shared_memory_per_block; };
  // L1 holds the matches of up to 4096 reads of every CTA that is resident: 32 us at default on an H200, 33 staged.
  plan.staged = true, plan.matched = reads > 4096 && n < kNoMatch;
  // Two CTAs a multiprocessor where that is enough for every chunk: each is staged once. Payloads past a third of a
  // multiprocessor leave room for one CTA or two: these get more warps, but not in the place of the matches (flagship
  // took 199 us on an H200 with 12 warps and matches, 216 with 12 warps and 237 with 32 without).
  if (p.dims.chunks() <= 2 * context.device.multiprocessors && p.dims.chunk >= kMoreThreads / 32 &&
      fits(kMoreThreads, 2))
    warps = kMoreThreads / 32;
  else if (!fits(kFewThreads, 3))
    warps = kManyThreads / 32;
  const int without_matches = warps;
  if (!fits_one() && plan.matched) warps = kFewThreads / 32;
  if (!fits_one()) plan.matched = false, warps = without_matches;
  if (!fits_one()) plan.staged = false, warps = kFewThreads / 32;
  if (context.geometry.warps > 0 && context.geometry.warps <= warps) warps = context.geometry.warps;
  const std::size_t shared = bytes(warps);
  const auto resident = static_cast<std::int64_t>(
      std::min<std::size_t>(32 * warps <= kFewThreads ? 4 : (32 * warps <= kMoreThreads ? 2 : 1),
                            context.device.shared_memory_per_multiprocessor / (shared + kReserved)));
  // As many CTAs a chunk as are resident at once, a row a warp at least.
  const std::int64_t most = device::ceil_div(p.dims.chunk, warps);
  const std::int64_t wanted = std::max<std::int64_t>(1, resident) * context.device.multiprocessors / p.dims.chunks();
  const auto split = static_cast<int>(std::clamp<std::int64_t>(wanted, 1, most));
  plan.tokens = device::ceil_div(p.dims.chunk, split);
  plan.blocks = device::ceil_div(p.dims.chunk, plan.tokens);
  plan.shape = {dim3(static_cast<unsigned>(p.dims.chunks() * plan.blocks)), 32 * warps, shared};
  return plan;
}

std::string refuse(const Params&, const Device&) { return ""; }

void launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  const auto kernel = !plan.staged                        ? group_pairs_kernel<false, kFewThreads>
                      : plan.shape.threads > kMoreThreads ? group_pairs_kernel<true, kManyThreads>
                      : plan.shape.threads > kFewThreads  ? group_pairs_kernel<true, kMoreThreads>
                                                          : group_pairs_kernel<true, kFewThreads>;
  device::launch(kernel, plan.shape, context, p, plan.blocks, plan.tokens, plan.matched);
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  return device::describe(plan.shape) + ", " + std::to_string(plan.tokens) + " rows a CTA, payloads " +
         (plan.staged ? (plan.matched ? "and matches in shared memory" : "in shared memory") : "from global memory");
}

}  // namespace

const Variant<Params> group_pairs = {
    .name = "group_pairs",
    .why = "any shape",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::interactions
