#include <algorithm>

#include "kernels/common/launch.h"
#include "kernels/common/prefetch.cuh"
#include "kernels/interactions/pairs.cuh"

namespace sdm::interactions {
namespace {

/// Four CTAs of 384 threads fit a multiprocessor at 40 registers: 512 chunks are one wave on 132 of them. 32 us at
/// default on an H200; a pair at a time by the whole warp, in two waves, took 75.
constexpr int kFewThreads = 384, kMoreThreads = 768, kManyThreads = 1024;
constexpr int kBlocks = 2;   // of 32 entries of a token, for each operand, at a time
constexpr int kListed = 64;  // pairs of these blocks that are added together

// --- kernels ---------------------------------------------------------------------------------------------------------

/// Entries base .. base + 32*kBlocks - 1 of a token, 32 a block; all loads of a kind are in flight together.
struct RowBlocks {
  EntryMembers writes[kBlocks], reads[kBlocks];
};

__device__ __forceinline__ RowBlocks load_blocks(const Members& members, const PairRow& at, int token, int base) {
  const Params& p = members.p;
  RowBlocks row;
  int write_position[kBlocks], read_position[kBlocks];
  const int first = base + device::lane_id();
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    const int n = first + 32 * b;
    write_position[b] = n < p.dims.writes ? p.writes.position[at.write_at + n] : -1;
    read_position[b] = n < p.dims.reads ? p.reads.position[at.read_at + n] : -1;
  }
  const std::int32_t* match = p.reads.match + (at.read_at - std::int64_t{token} * p.dims.reads);
  const auto first_of = [&](int position) {
    if (members.match == nullptr) return match[position];
    const int first = members.match[position];
    return first == kNoMatch ? -1 : first;
  };
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) {
    row.reads[b].first = read_position[b] >= 0 ? first_of(read_position[b]) : -1;
    if (write_position[b] < 0) continue;
    row.writes[b].count = distance_of(members.payload[write_position[b]]);
    row.writes[b].first = write_position[b] - row.writes[b].count;
  }
#pragma unroll
  for (int b = 0; b < kBlocks; ++b)
    if (row.reads[b].first >= 0) row.reads[b].count = members_until(members, row.reads[b].first, token);
  return row;
}

/// Few pairs: those of all blocks are listed and added together, 32 at a time. `longer`: some entry has several.
__device__ __forceinline__ void add_listed(const Members& members, const PairRow& at, const RowBlocks& row, int base,
                                           bool longer, int total, Pair* list) {
  const unsigned below = (1u << device::lane_id()) - 1u;
  int listed = 0;
  const auto append = [&](const EntryMembers& e, int entry) {
    if (!longer) {
      const unsigned todo = __ballot_sync(device::kWholeWarp, e.count > 0);
      if (e.count > 0) list[listed + __popc(todo & below)] = {entry, e.first};
      listed += __popc(todo);
    } else {
      const int end = device::warp_inclusive_sum(e.count);
      for (int m = 0; m < e.count; ++m) list[listed + end - e.count + m] = {entry, e.first + m};
      listed += __shfl_sync(device::kWholeWarp, end, 31);
    }
  };
  const int first = base + device::lane_id();
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) append(row.writes[b], first + 32 * b);
#pragma unroll
  for (int b = 0; b < kBlocks; ++b) append(row.reads[b], kOfReads + first + 32 * b);
  __syncwarp();
  for (int i = device::lane_id(); i - device::lane_id() < total; i += 32)
    add_pairs_of_lanes(members, at, i < total, list[i < total ? i : 0]);
}

/// Row `token` of A (own entries against the earlier members of their groups) and of QK (own reads against the members
/// of their slot's write group up to the own token). `list`: the warp's, [kListed].
__device__ __forceinline__ void make_row(const Members& members, const PairRow& at, int token, Pair* list) {
  const Dims& dims = members.p.dims;
  for (int base = 0; base < max(dims.writes, dims.reads); base += 32 * kBlocks) {
    const RowBlocks row = load_blocks(members, at, token, base);
    int pairs = 0;
    bool longer = false;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      pairs += row.writes[b].count + row.reads[b].count;
      longer |= row.writes[b].count > 1 || row.reads[b].count > 1;
    }
    const int total = __reduce_add_sync(device::kWholeWarp, pairs);
    if (total == 0) continue;
    if (total <= kListed) {
      add_listed(members, at, row, base, __any_sync(device::kWholeWarp, longer) != 0, total, list);
      continue;
    }
    const int first = base + device::lane_id();
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) add_pairs(members, at, row.writes[b], first + 32 * b);
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) add_pairs(members, at, row.reads[b], kOfReads + first + 32 * b);
  }
}

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

/// Row `token` of A and QK to its place, and zeros for the next row.
__device__ __forceinline__ void store_row(const Params& p, std::int64_t out, float* row) {
  const int c = p.dims.chunk;
  if (c % 4 == 0) {
    const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    for (int j = 4 * device::lane_id(); j < 2 * c; j += 4 * 32) {
      auto* at = reinterpret_cast<float4*>(row + j);
      *reinterpret_cast<float4*>(j < c ? p.a + out + j : p.qk + out + (j - c)) = *at;
      *at = zero;
    }
  } else {
    for (int j = device::lane_id(); j < c; j += 32) {
      p.a[out + j] = row[j];
      p.qk[out + j] = row[c + j];
      row[j] = row[c + j] = 0.0f;
    }
  }
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
    store_row(p, (chunk * c + token) * c, row);
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
