#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/interactions/contract.h"
#include "kernels/interactions/interactions.h"

namespace sdm::interactions {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kMemberBytes = 12;  // payload, k, log_k of a staged sorted write position

struct Member {
  std::uint32_t payload;
  float k, log_k;
};

/// The sorted write positions of a chunk, straight from global memory: three loads a member, two of them scattered.
struct GlobalMembers {
  const Params& p;
  std::int64_t at;
  __device__ __forceinline__ std::uint32_t payload(int i) const { return p.writes.payload[at + i]; }
  __device__ __forceinline__ Member get(int i) const {
    const std::uint32_t bits = payload(i);
    const std::int64_t e = at + token_of(bits) * p.dims.writes + entry_of(bits);
    return {bits, device::value_at(p.k, e), p.log_k[e]};
  }
};

/// The same, staged in shared memory: what keeps hot slots fast, where every member is read by many rows. k and log_k
/// are staged only where some row will ask for them.
struct StagedMembers {
  std::uint32_t* bits;
  float* k;
  float* log_k;
  __device__ __forceinline__ std::uint32_t payload(int i) const { return bits[i]; }
  __device__ __forceinline__ Member get(int i) const { return {bits[i], k[i], log_k[i]}; }
  __device__ __forceinline__ void fill(const GlobalMembers& source, int valid) const {
    for (int i = static_cast<int>(threadIdx.x); i < valid; i += static_cast<int>(blockDim.x)) {
      const std::uint32_t payload = source.payload(i);
      bits[i] = payload;
      const bool alone = (payload & (kFirst | kLast)) == (kFirst | kLast);
      if (alone && source.p.writes.match[source.at + i] < 0) continue;
      const Member member = source.get(i);
      k[i] = member.k;
      log_k[i] = member.log_k;
    }
  }
};

/// An entry of the row, its values and where its pairs are: `count` members from sorted position `first` on.
struct RowEntry {
  float x = 0.0f, log_x = 0.0f;
  int first = 0, count = 0;
};
__device__ __forceinline__ RowEntry broadcast(const RowEntry& e, int lane) {
  return {__shfl_sync(device::kWholeWarp, e.x, lane), __shfl_sync(device::kWholeWarp, e.log_x, lane),
          __shfl_sync(device::kWholeWarp, e.first, lane), __shfl_sync(device::kWholeWarp, e.count, lane)};
}

/// Adds the pairs of 32 entries, one a lane, to the row, entries ascending. The members of a group have different
/// tokens, so the lanes of one entry never meet. `kChecked`: members count only inside the group and up to `token`.
template <bool kChecked, typename Members>
__device__ __forceinline__ void add_pairs(const RowEntry& mine, const Members& members, int token, float* row) {
  unsigned todo = __ballot_sync(device::kWholeWarp, mine.count > 0);
  while (todo != 0) {
    const RowEntry e = broadcast(mine, __ffs(static_cast<int>(todo)) - 1);
    todo &= todo - 1;
    for (int m = device::lane_id(); m < e.count; m += 32) {
      if (kChecked) {  // past its end a group's positions have a smaller distance
        const std::uint32_t payload = members.payload(e.first + m);
        if (distance_of(payload) != m || token_of(payload) > token) break;
      }
      const Member j = members.get(e.first + m);
      float& out = row[token_of(j.payload)];
      out = add_pair(e.x, e.log_x, j.k, j.log_k, out);
    }
    __syncwarp();
  }
}

/// Row `token` of A: every own entry against the earlier members of its group.
template <typename Members>
__device__ __forceinline__ void a_row(const Params& p, std::int64_t at, int token, const Members& members, float* row) {
  for (int base = 0; base < p.dims.writes; base += 32) {
    const int n = base + device::lane_id();
    RowEntry mine;
    if (n < p.dims.writes) {
      const std::int64_t e = at + token * p.dims.writes + n;
      const int position = p.writes.position[e];
      mine.count = distance_of(members.payload(position));
      mine.first = position - mine.count;
      if (mine.count > 0) mine.x = device::value_at(p.k, e), mine.log_x = p.log_k[e];
    }
    add_pairs<false>(mine, members, token, row);
  }
}

/// Row `token` of QK: every own read against the members of its slot's write group up to its own token.
template <typename Members>
__device__ __forceinline__ void qk_row(const Params& p, std::int64_t at, int token, int valid, const Members& members,
                                       float* row) {
  for (int base = 0; base < p.dims.reads; base += 32) {
    const int n = base + device::lane_id();
    RowEntry mine;
    if (n < p.dims.reads) {
      const std::int64_t e = at + token * p.dims.reads + n;
      mine.first = p.reads.match[at + p.reads.position[e]];
      if (mine.first >= 0) {
        mine.count = min(token + 1, valid - mine.first);  // member m has token >= m
        mine.x = device::value_at(p.q, e), mine.log_x = p.log_q[e];
      }
    }
    add_pairs<true>(mine, members, token, row);
  }
}

/// Copies a finished row out and leaves zeros for the next.
__device__ __forceinline__ void flush_row(float* row, float* out, int chunk) {
  for (int j = device::lane_id(); j < chunk; j += 32) {
    out[j] = row[j];
    row[j] = 0.0f;
  }
  __syncwarp();
}

/// Resident threads of a multiprocessor: what 4 CTAs of 512 may count on.
#if defined(__CUDA_ARCH__) && (__CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1200)
inline constexpr int kResidentThreads = 1536;
#else
inline constexpr int kResidentThreads = 2048;
#endif

/// A CTA handles `tokens` rows of a chunk, a warp a row at a time. Shared: rows [warps][C], then the staged members.
template <bool kStaged>
__global__ void __launch_bounds__(512, kStaged ? kResidentThreads / 512 : 3)
    group_pairs_kernel(const __grid_constant__ Params p, int blocks, int tokens) {
  device::wait_for_previous_grid();
  const std::int64_t chunk = blockIdx.x / static_cast<unsigned>(blocks);
  const int begin = static_cast<int>(blockIdx.x % static_cast<unsigned>(blocks)) * tokens, c = p.dims.chunk;
  const int valid_tokens = p.dims.valid_tokens_of_chunk(chunk), valid = valid_tokens * p.dims.writes;
  const int warps = static_cast<int>(blockDim.x / 32), n = p.dims.write_positions();
  float* rows = reinterpret_cast<float*>(device::dynamic_shared());
  float* row = rows + device::warp_id() * c;
  const GlobalMembers global{p, chunk * n};
  float* staged = rows + warps * c;
  const StagedMembers shared{reinterpret_cast<std::uint32_t*>(staged), staged + n, staged + 2 * n};
  for (int j = device::lane_id(); j < c; j += 32) row[j] = 0.0f;
  if constexpr (kStaged) {
    shared.fill(global, valid);
    __syncthreads();
  } else {
    __syncwarp();
  }
  const auto compute = [&](const auto& members, int token) {
    const std::int64_t out = (chunk * c + token) * c;
    if (token < valid_tokens) a_row(p, chunk * n, token, members, row);
    flush_row(row, p.a + out, c);
    if (token < valid_tokens) qk_row(p, chunk * p.dims.read_positions(), token, valid, members, row);
    flush_row(row, p.qk + out, c);
  };
  for (int token = begin + device::warp_id(); token < min(begin + tokens, c); token += warps) {
    if constexpr (kStaged)
      compute(shared, token);
    else
      compute(global, token);
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

struct Plan {
  device::LaunchShape shape;
  int blocks, tokens;  // CTAs a chunk, rows a CTA
  bool staged;
};

Plan plan_of(const Params& p, const LaunchContext& context) {
  constexpr int kCtas = 4;  // of 16 warps a multiprocessor
  const int c = p.dims.chunk;
  const int warps = context.geometry.warps > 0 && context.geometry.warps <= 16 ? context.geometry.warps : 16;
  const std::int64_t wanted = std::int64_t{kCtas} * context.device.multiprocessors;
  const int most = device::ceil_div(c, warps);  // a row a warp
  const std::int64_t blocks_wanted = device::ceil_div(wanted, p.dims.chunks());
  const int split = blocks_wanted < most ? static_cast<int>(blocks_wanted) : most;
  const int tokens = device::ceil_div(c, split), blocks = device::ceil_div(c, tokens);
  const std::size_t rows = static_cast<std::size_t>(warps) * static_cast<std::size_t>(c) * 4;
  const std::size_t members = static_cast<std::size_t>(p.dims.write_positions()) * kMemberBytes;
  // Half a multiprocessor's memory keeps two CTAs on it; larger chunks read members from L1 and L2.
  const bool staged = rows + members + 1024 <= context.device.shared_memory_per_multiprocessor / 2 &&
                      rows + members <= context.device.shared_memory_per_block;
  return {{dim3(static_cast<unsigned>(p.dims.chunks() * blocks)), 32 * warps, rows + (staged ? members : 0)},
          blocks,
          tokens,
          staged};
}

std::string refuse(const Params&, const Device&) { return ""; }

void launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  device::launch(plan.staged ? group_pairs_kernel<true> : group_pairs_kernel<false>, plan.shape, context, p,
                 plan.blocks, plan.tokens);
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  return device::describe(plan.shape) + ", " + std::to_string(plan.tokens) + " rows a CTA, members " +
         (plan.staged ? "staged in shared memory" : "from global memory");
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
