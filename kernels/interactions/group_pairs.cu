#include <algorithm>

#include "kernels/common/launch.h"
#include "kernels/interactions/pairs.cuh"

namespace sdm::interactions {
namespace {

/// Four CTAs of 384 threads fit a multiprocessor at 40 registers: 512 chunks are one wave on 132 of them.
constexpr int kThreads = 384;
constexpr int kBlocks = 2;   // of 32 entries of a token, for each operand, at a time
constexpr int kListed = 64;  // pairs of these blocks that are added together

// --- kernels ---------------------------------------------------------------------------------------------------------

/// By entry of the CTA's rows, in shared memory: where an entry's members begin and how many concern it.
struct Table {
  std::uint16_t *first, *count;
  int entries;  ///< of a token
  __device__ __forceinline__ void set(int row, int entry, int first_, int count_) const {
    first[row * entries + entry] = static_cast<std::uint16_t>(first_);
    count[row * entries + entry] = static_cast<std::uint16_t>(count_);
  }
  __device__ __forceinline__ EntryMembers get(int row, int entry) const {
    if (entry >= entries) return {};
    return {first[row * entries + entry], count[row * entries + entry]};
  }
};
struct Tables {
  Table writes, reads;
};

/// Fills the tables of tokens begin .. begin + rows - 1 from the sorted order: everything is read in order, and
/// scattered in shared memory. Gathering by entry instead waited for L2 twice a row.
__device__ __forceinline__ void fill_tables(const Members& members, std::int64_t read_at, int read_valid, int begin,
                                            int rows, const Tables& tables) {
  const Params& p = members.p;
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const auto row_of = [&](std::uint32_t payload) { return static_cast<unsigned>(token_of(payload) - begin); };
  const auto write = [&](int i) { return members.payload[i]; };
  device::in_batches<4>(thread, threads, members.valid, write, [&](int i, std::uint32_t payload) {
    const int distance = distance_of(payload);
    if (const unsigned row = row_of(payload); row < static_cast<unsigned>(rows))
      tables.writes.set(static_cast<int>(row), entry_of(payload), i - distance, distance);
  });
  struct Read {
    std::uint32_t payload, member;
    std::int32_t match;
  };
  const std::uint32_t* payloads = p.reads.payload + read_at;
  const std::int32_t* matches = p.reads.match + read_at;
  const auto read = [&](int i) {
    Read r{payloads[i], 0, matches[i]};
    if (r.match >= 0 && row_of(r.payload) < static_cast<unsigned>(rows)) r.member = members.payload[r.match];
    return r;
  };
  device::in_batches<4>(thread, threads, read_valid, read, [&](int, const Read& r) {
    const unsigned row = row_of(r.payload);
    if (row >= static_cast<unsigned>(rows)) return;
    const int count = r.match < 0 ? 0 : members_until(members, r.match, r.member, token_of(r.payload));
    tables.reads.set(static_cast<int>(row), entry_of(r.payload), r.match, count);
  });
}

/// Entries base .. base + 32*kBlocks - 1 of a token, 32 a block.
struct RowBlocks {
  EntryMembers writes[kBlocks], reads[kBlocks];
};

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

/// A row of A (own entries against the earlier members of their groups) and of QK (own reads against the members of
/// their slot's write group up to the own token); `index`: of the row in the tables. `list`: the warp's, [kListed].
__device__ __forceinline__ void make_row(const Members& members, const PairRow& at, const Tables& tables, int index,
                                         Pair* list) {
  const Dims& dims = members.p.dims;
  for (int base = 0; base < max(dims.writes, dims.reads); base += 32 * kBlocks) {
    RowBlocks row;
    int pairs = 0;
    bool longer = false;
#pragma unroll
    for (int b = 0; b < kBlocks; ++b) {
      row.writes[b] = tables.writes.get(index, base + 32 * b + device::lane_id());
      row.reads[b] = tables.reads.get(index, base + 32 * b + device::lane_id());
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

/// A CTA handles `rows` rows of a chunk, a warp a row at a time. Shared: the warps' lists and rows, then the tables.
__global__ void __launch_bounds__(kThreads, 4)
    group_pairs_kernel(const __grid_constant__ Params p, int blocks, int rows) {
  device::wait_for_previous_grid();
  const std::int64_t chunk = blockIdx.x / static_cast<unsigned>(blocks);
  const int begin = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks)) * rows, c = p.dims.chunk;
  const int valid_tokens = p.dims.valid_tokens_of_chunk(chunk), n = p.dims.write_positions();
  const int warps = static_cast<int>(blockDim.x / 32);
  const std::int64_t read_at = chunk * p.dims.read_positions();
  auto* lists = reinterpret_cast<Pair*>(device::dynamic_shared());
  float* sums = reinterpret_cast<float*>(lists + kListed * warps);
  auto* firsts = reinterpret_cast<std::uint16_t*>(sums + 2 * c * warps);
  auto* counts = firsts + rows * (p.dims.writes + p.dims.reads);
  const Tables tables{{firsts, counts, p.dims.writes},
                      {firsts + rows * p.dims.writes, counts + rows * p.dims.writes, p.dims.reads}};
  const Members members{p, p.writes.payload + chunk * n, chunk * n, valid_tokens * p.dims.writes};
  fill_tables(members, read_at, valid_tokens * p.dims.reads, begin, rows, tables);
  float* row = sums + device::warp_id() * 2 * c;  // of A, then of QK
  for (int j = device::lane_id(); j < 2 * c; j += 32) row[j] = 0.0f;
  __syncthreads();
  for (int token = begin + device::warp_id(); token < min(begin + rows, c); token += warps) {
    const PairRow at{members.at + std::int64_t{token} * p.dims.writes, read_at + std::int64_t{token} * p.dims.reads,
                     row, row + c};
    if (token < valid_tokens) make_row(members, at, tables, token - begin, lists + kListed * device::warp_id());
    __syncwarp();
    const std::int64_t out = (chunk * c + token) * c;
    for (int j = device::lane_id(); j < c; j += 32) {  // out, and zeros for the next row
      p.a[out + j] = row[j];
      p.qk[out + j] = row[c + j];
      row[j] = row[c + j] = 0.0f;
    }
    __syncwarp();
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

struct Plan {
  device::LaunchShape shape;
  int blocks, rows;  // CTAs a chunk, rows a CTA
};

Plan plan_of(const Params& p, const LaunchContext& context) {
  constexpr std::int64_t kCtas = 4, kReserved = 1024;  // of a multiprocessor; of its shared memory for each CTA
  int warps = kThreads / 32;
  if (context.geometry.warps > 0 && context.geometry.warps < warps) warps = context.geometry.warps;
  const std::int64_t c = p.dims.chunk, row_bytes = 4 * (std::int64_t{p.dims.writes} + p.dims.reads);
  const std::int64_t fixed = warps * (kListed * static_cast<std::int64_t>(sizeof(Pair)) + 2 * c * 4);
  const auto memory = static_cast<std::int64_t>(context.device.shared_memory_per_multiprocessor) / kCtas - kReserved;
  // As many CTAs a chunk as are resident at once, a row a warp at least; more where the tables would not fit four
  // times.
  const std::int64_t wanted = kCtas * context.device.multiprocessors / p.dims.chunks();
  std::int64_t rows =
      device::ceil_div(c, std::clamp<std::int64_t>(wanted, 1, device::ceil_div(c, std::int64_t{warps})));
  rows = std::min(rows, std::max<std::int64_t>(1, (memory - fixed) / row_bytes));
  Plan plan{};
  plan.blocks = static_cast<int>(device::ceil_div(c, rows));
  plan.rows = static_cast<int>(device::ceil_div(c, std::int64_t{plan.blocks}));
  plan.shape = {dim3(static_cast<unsigned>(p.dims.chunks() * plan.blocks)), 32 * warps,
                static_cast<std::size_t>(fixed + plan.rows * row_bytes)};
  return plan;
}

std::string refuse(const Params& p, const Device& device) {
  LaunchContext context;
  context.device = device;
  const std::size_t needed = plan_of(p, context).shape.shared_bytes;
  if (needed <= device.shared_memory_per_block) return "";
  return "group_pairs needs " + std::to_string(needed) + " bytes of shared memory for chunk " +
         std::to_string(p.dims.chunk) + "; this device gives " + std::to_string(device.shared_memory_per_block) +
         " a CTA (a smaller chunk)";
}

void launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  device::launch(group_pairs_kernel, plan.shape, context, p, plan.blocks, plan.rows);
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  return device::describe(plan.shape) + ", " + std::to_string(plan.rows) + " rows a CTA";
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
