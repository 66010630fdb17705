// decay_sums, variant `group_scan`: every entry and every position walks for what it needs, so that any shape is cut
// into tiles of independent threads, which store in order. Two launches: the sums, then the weights and records made of
// them. Groups are short where slots are uniform; long ones are summed by warps first.
#include <algorithm>

#include "kernels/decay_sums/entry_sums.cuh"

namespace sdm::decay_sums {
namespace {

// --- weights and records ---------------------------------------------------------------------------------------------

/// 212 us for sums and weights at flagship on an H200; with 2 positions in flight and six CTAs a multiprocessor 213,
/// with 8 and four, which spill, 250. A thread a group, whose members' stores were scattered, took 344.
constexpr int kThreads = 256, kTile = 2048, kBatch = 4;  // kBatch: positions of a thread in flight

/// A range of positions, and of entries, of one side of a chunk.
struct Tile {
  std::int64_t chunk, at;    // `at`: of the chunk's first position and first entry
  int begin, end, valid, n;  // of the chunk
};

__device__ __forceinline__ Tile tile_of(const Params& p, int write_tiles, int tiles) {
  const std::int64_t chunk = blockIdx.x / static_cast<unsigned>(tiles);
  const int own = static_cast<int>(blockIdx.x % static_cast<unsigned>(tiles));
  const int entries = own < write_tiles ? p.dims.writes : p.dims.reads, n = p.dims.chunk * entries;
  const int begin = (own < write_tiles ? own : own - write_tiles) * kTile;
  return {chunk, chunk * n, begin, min(begin + kTile, n), p.dims.valid_tokens_of_chunk(chunk) * entries, n};
}

/// decayed(x, log), without the exponential where it is 1.
__device__ __forceinline__ float decayed_or_same(float x, float log) {
  return log == 0.0f ? times_one(x) : decayed(x, log);
}

__device__ __forceinline__ void write_records(const Params& p, const Tile& t) {
  const WriteGroups groups(p, t.chunk);
  const float* beta = p.beta + t.chunk * p.dims.chunk;
#pragma unroll 1
  for (int base = t.begin + static_cast<int>(threadIdx.x); base < t.end; base += kBatch * kThreads) {
    std::uint32_t payload[kBatch];
    std::int32_t slot[kBatch];
    float k[kBatch], factor[kBatch], log_k[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = base + b * kThreads;
      if (i < t.end) payload[b] = groups.payload[i], slot[b] = p.writes.slot[t.at + i];
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (base + b * kThreads < min(t.end, t.valid)) {
        k[b] = device::value_at(p.k, t.at + entry_at(payload[b], groups.entries));
        factor[b] = beta[token_of(payload[b])];
        log_k[b] = groups.gate(payload[b]);
      }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = base + b * kThreads;
      if (i >= t.end) continue;
      Record write{payload[b], 0, 0.0f, 1.0f}, undo = write;
      if (i < t.valid) {
        float total = log_k[b], rex = 0.0f;
        if ((payload[b] & kAlone) != kAlone) {
          const std::int64_t e = t.at + entry_at(payload[b], groups.entries);
          const std::uint32_t end = groups.last_payload(i, payload[b]);
          log_k[b] = p.log_k[e], rex = p.rex[e], total = p.log_k[t.at + entry_at(end, groups.entries)];
        }
        const float cpe = exp_rn(total), k_weight = k[b] * (log_k[b] == total ? cpe : exp_rn(log_k[b]));
        write = {payload[b], slot[b], decayed_or_same(k[b], rex), cpe};
        undo = {payload[b], slot[b], undo_scale(factor[b], k_weight), cpe};
      }
      store_record(p.write_record + t.at + i, write);
      store_record(p.undo_record + t.at + i, undo);
    }
  }
}

__device__ __forceinline__ void read_records(const Params& p, const Tile& t) {
#pragma unroll 1
  for (int base = t.begin + static_cast<int>(threadIdx.x); base < t.end; base += kBatch * kThreads) {
    std::uint32_t payload[kBatch];
    std::int32_t slot[kBatch], match[kBatch];
    float q[kBatch], log_q[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = base + b * kThreads;
      if (i >= t.end) continue;
      payload[b] = p.reads.payload[t.at + i], slot[b] = p.reads.slot[t.at + i], match[b] = p.reads.match[t.at + i];
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b)
      if (base + b * kThreads < min(t.end, t.valid)) {
        const std::int64_t e = t.at + entry_at(payload[b], p.dims.reads);
        q[b] = device::value_at(p.q, e);
        log_q[b] = match[b] >= 0 ? p.log_q[e] : 0.0f;
      }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const int i = base + b * kThreads;
      if (i >= t.end) continue;
      Record record{payload[b], 0, 0.0f, 1.0f};
      if (i < t.valid) record = {payload[b], slot[b], decayed_or_same(q[b], log_q[b]), 0.0f};
      store_record(p.read_record + t.at + i, record);
    }
  }
}

/// strength * exp(log) of the tile's entries to `out`, zeros for padding.
template <typename Out>
__device__ __forceinline__ void write_weights(const Tile& t, AnyPtr strength, const float* log, const Out& out) {
  const bool vectors = t.n % 4 == 0;
  const auto run = [&](const auto* values) {
#pragma unroll 1
    for (int e = t.begin + 4 * static_cast<int>(threadIdx.x); e < t.end; e += 4 * kThreads) {
      const float4 x = load_four(values + t.at, e, t.valid, vectors), l = load_four(log + t.at, e, t.valid, vectors);
      out(e, vectors,
          make_float4(decayed_or_same(x.x, l.x), decayed_or_same(x.y, l.y), decayed_or_same(x.z, l.z),
                      decayed_or_same(x.w, l.w)));
    }
  };
  if (strength.dtype == DType::bf16)
    run(static_cast<const bf16_t*>(strength.data));
  else
    run(static_cast<const float*>(strength.data));
}

/// grid: tiles of the writes, then of the reads, chunk after chunk.
__global__ void __launch_bounds__(kThreads, 5)
    weights_kernel(const __grid_constant__ Params p, int write_tiles, int tiles) {
  device::wait_for_previous_grid();
  const Tile t = tile_of(p, write_tiles, tiles);
  if (static_cast<int>(blockIdx.x % static_cast<unsigned>(tiles)) < write_tiles) {
    write_records(p, t);
    write_weights(t, p.k, p.log_k,
                  [&](int e, bool vectors, const float4& x) { store_four(p.k_weight, t.at, e, t.n, vectors, x); });
    write_weights(t, p.k, p.rex,
                  [&](int e, bool vectors, const float4& x) { store_four(p.write_weight + t.at, e, t.n, vectors, x); });
  } else {
    read_records(p, t);
    write_weights(t, p.q, p.log_q,
                  [&](int e, bool vectors, const float4& x) { store_four(p.q_weight, t.at, e, t.n, vectors, x); });
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

struct SumsPlan {
  device::LaunchShape shape;
  int blocks, tile;
  bool staged;
};

/// A CTA a chunk, more where that leaves multiprocessors idle.
SumsPlan sums_plan(const Params& p, const LaunchContext& context) {
  constexpr std::size_t kReserved = 1024;  // of the driver
  const int writes = p.dims.write_positions(), reads = p.dims.read_positions(), most = std::max(writes, reads);
  const std::size_t bytes = static_cast<std::size_t>((writes + 3) / 4 * 16 + (reads + 3) / 4 * 8);
  SumsPlan plan{};
  plan.staged = writes < kNoMatch && bytes + kReserved <= context.device.shared_memory_per_block;
  int threads = std::clamp(device::ceil_div(most, 4 * 32) * 32, 32, kSumsThreads);
  if (context.geometry.warps >= 1 && context.geometry.warps <= kSumsThreads / 32) threads = 32 * context.geometry.warps;
  plan.blocks = static_cast<int>(std::clamp<std::int64_t>(context.device.multiprocessors / p.dims.chunks(), 1,
                                                          device::ceil_div(most, 4 * threads)));
  plan.tile = device::ceil_div(most, 4 * plan.blocks) * 4;
  plan.shape = {dim3(static_cast<unsigned>(p.dims.chunks() * plan.blocks)), threads, plan.staged ? bytes : 0};
  return plan;
}

int tiles_of(int positions) { return device::ceil_div(positions, kTile); }

device::LaunchShape weights_shape(const Params& p) {
  const int tiles = tiles_of(p.dims.write_positions()) + tiles_of(p.dims.read_positions());
  return {dim3(static_cast<unsigned>(p.dims.chunks() * tiles)), kThreads, 0};
}

std::string refuse(const Params&, const Device&) { return ""; }

void launch(const Params& p, const LaunchContext& context) {
  const SumsPlan plan = sums_plan(p, context);
  device::launch(plan.staged ? sums_kernel<true> : sums_kernel<false>, plan.shape, context, p, plan.blocks, plan.tile);
  const int write_tiles = tiles_of(p.dims.write_positions()), tiles = write_tiles + tiles_of(p.dims.read_positions());
  device::launch(weights_kernel, weights_shape(p), context, p, write_tiles, tiles);
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const SumsPlan plan = sums_plan(p, context);
  return "sums " + device::describe(plan.shape) + (plan.staged ? ", payloads in shared memory" : "") + "; weights " +
         device::describe(weights_shape(p));
}

}  // namespace

const Variant<Params> group_scan = {
    .name = "group_scan",
    .why = "any shape: every entry walks its own group",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::decay_sums
