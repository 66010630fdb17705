#include "kernels/common/entry_values.cuh"
#include "kernels/common/launch.h"
#include "kernels/decay_sums/contract.h"
#include "kernels/decay_sums/decay_sums.h"

namespace sdm::decay_sums {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kThreads = 256;
constexpr int kTile = 1024;         // sorted positions a CTA; a multiple of 32
constexpr int kSpan = kTile + 256;  // a group that begins in the tile ends at most 255 positions after it (C <= 256)

/// What a CTA knows of its chunk and side.
struct Tile {
  std::int64_t chunk, at;  // `at`: of the chunk's first position and first entry
  int entries, valid;      // entries a token; valid positions of the chunk
  int begin, end;          // positions of the tile; the same range of entries
};

__device__ __forceinline__ Tile tile_of(const Params& p, int entries, int tiles) {
  const int n = p.dims.chunk * entries;
  Tile t{};
  t.chunk = blockIdx.x / static_cast<unsigned>(tiles);
  t.at = t.chunk * n;
  t.entries = entries;
  t.valid = p.dims.valid_tokens_of_chunk(t.chunk) * entries;
  t.begin = static_cast<int>(blockIdx.x % static_cast<unsigned>(tiles)) * kTile;
  t.end = min(t.begin + kTile, n);
  return t;
}

__device__ __forceinline__ int entry_at(std::uint32_t payload, int entries) {
  return token_of(payload) * entries + entry_of(payload);
}
__device__ __forceinline__ float gate_of(const Params& p, const Tile& t, int entry) {
  return p.g[p.gate == Gate::write ? t.at + entry : t.chunk * p.dims.chunk + entry / t.entries];
}

__device__ __forceinline__ void store_entry(const Params& p, std::int64_t e, float log_k, float rex, float k_weight,
                                            float write_weight) {
  p.log_k[e] = log_k;
  p.rex[e] = rex;
  device::set_value(p.k_weight, e, k_weight);
  p.write_weight[e] = write_weight;
}

/// The groups of a tile, in sorted order.
struct SharedGroups {
  std::uint32_t payload[kSpan];
  float gate[kSpan];  // after the walk: rex
  float log_k[kSpan];
  float cpe[kSpan];
};

/// One thread walks a group from its FIRST at `i`: log_k forwards, rex backwards.
__device__ __forceinline__ void walk_group(SharedGroups& s, int i) {
  float sum = s.gate[i];
  s.log_k[i] = sum;
  int last = i;
  while (!(s.payload[last] & kLast)) {
    ++last;
    sum = sum + s.gate[last];
    s.log_k[last] = sum;
  }
  const float cpe = exp_rn(sum);
  float after = 0.0f;
  for (int m = last; m >= i; --m) {
    const float gate = s.gate[m];
    s.gate[m] = after;
    s.cpe[m] = cpe;
    after = after + gate;
  }
}

/// Records in sorted order. The arrays by entry are written here for members of longer groups (scattered), and by
/// singleton_entries for all others, in order: nearly every write then is whole sectors.
__device__ __forceinline__ void write_records(const Params& p, const Tile& t, const SharedGroups& s, int begin,
                                              int end) {
  for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += kThreads) {
    const int m = i - begin;
    const std::uint32_t payload = s.payload[m];
    const std::int64_t e = t.at + entry_at(payload, t.entries);
    if (i >= t.valid) {
      store_entry(p, e, 0.0f, 0.0f, 0.0f, 0.0f);
      p.write_record[t.at + i] = p.undo_record[t.at + i] = Record{payload, 0, 0.0f, 1.0f};
      continue;
    }
    const float k = device::value_at(p.k, e);
    const float beta = p.beta[t.chunk * p.dims.chunk + token_of(payload)];
    const std::int32_t slot = p.writes.slot[t.at + i];
    const float k_weight = decayed(k, s.log_k[m]), write_weight = decayed(k, s.gate[m]);
    p.write_record[t.at + i] = Record{payload, slot, write_weight, s.cpe[m]};
    p.undo_record[t.at + i] = Record{payload, slot, undo_scale(beta, k_weight), s.cpe[m]};
    if ((payload & (kFirst | kLast)) != (kFirst | kLast))
      store_entry(p, e, s.log_k[m], s.gate[m], k_weight, write_weight);
  }
}

__device__ __forceinline__ void singleton_entries(const Params& p, const Tile& t) {
  for (int entry = t.begin + static_cast<int>(threadIdx.x); entry < min(t.end, t.valid); entry += kThreads) {
    const std::int64_t e = t.at + entry;
    const std::uint32_t payload = p.writes.payload[t.at + p.writes.position[e]];
    if ((payload & (kFirst | kLast)) != (kFirst | kLast)) continue;
    const float k = device::value_at(p.k, e), gate = gate_of(p, t, entry);
    store_entry(p, e, gate, 0.0f, decayed(k, gate), decayed(k, 0.0f));
  }
}

__global__ void __launch_bounds__(kThreads) writes_kernel(const __grid_constant__ Params p, int tiles) {
  __shared__ SharedGroups s;
  device::wait_for_previous_grid();
  const Tile t = tile_of(p, p.dims.writes, tiles);
  const int windows = window_count(p.dims.write_positions());
  const Window* window = p.writes.window + t.chunk * windows;
  const int begin = window[t.begin / 32].next_first;
  const int end = window[min((t.begin + kTile) / 32, windows - 1)].next_first;
  for (int i = begin + static_cast<int>(threadIdx.x); i < end; i += kThreads) {
    const std::uint32_t payload = p.writes.payload[t.at + i];
    s.payload[i - begin] = payload;
    s.gate[i - begin] = i < t.valid ? gate_of(p, t, entry_at(payload, t.entries)) : 0.0f;
  }
  __syncthreads();
  for (int i = begin + static_cast<int>(threadIdx.x); i < min(end, t.valid); i += kThreads)
    if (s.payload[i - begin] & kFirst) walk_group(s, i - begin);
  __syncthreads();
  write_records(p, t, s, begin, end);
  singleton_entries(p, t);
}

/// log_k of the last member with token <= `token` of the write group that begins at `first`. Members have ascending
/// tokens, and member m lies at distance m: both fail for good past the end, so a binary search finds the last.
__device__ __forceinline__ float log_q_of(const Params& p, std::int64_t write_at, int first, int token, int valid) {
  int known = -1, bound = min(token + 1, valid - first);  // tokens differ: member m has token >= m
  std::uint32_t found = 0;
  while (known + 1 < bound) {
    const int m = (known + 1 + bound) / 2;
    const std::uint32_t payload = p.writes.payload[write_at + first + m];
    if (distance_of(payload) == m && token_of(payload) <= token)
      known = m, found = payload;
    else
      bound = m;
  }
  return known < 0 ? 0.0f : p.log_k[write_at + entry_at(found, p.dims.writes)];
}

__global__ void __launch_bounds__(kThreads) reads_kernel(const __grid_constant__ Params p, int tiles) {
  device::wait_for_previous_grid();
  const Tile t = tile_of(p, p.dims.reads, tiles);
  const std::int64_t write_at = t.chunk * p.dims.write_positions();
  const int write_valid = p.dims.valid_tokens_of_chunk(t.chunk) * p.dims.writes;
  for (int i = t.begin + static_cast<int>(threadIdx.x); i < t.end; i += kThreads) {
    const std::uint32_t payload = p.reads.payload[t.at + i];
    const std::int64_t e = t.at + entry_at(payload, t.entries);
    const bool valid = i < t.valid;
    const int match = valid ? p.reads.match[t.at + i] : -1;
    const float log_q = match < 0 ? 0.0f : log_q_of(p, write_at, match, token_of(payload), write_valid);
    const float q_weight = valid ? decayed(device::value_at(p.q, e), log_q) : 0.0f;
    p.read_record[t.at + i] =
        valid ? Record{payload, p.reads.slot[t.at + i], q_weight, 0.0f} : Record{payload, 0, 0.0f, 1.0f};
    if (match >= 0 || !valid) {
      p.log_q[e] = log_q;
      device::set_value(p.q_weight, e, q_weight);
    }
  }
  for (int entry = t.begin + static_cast<int>(threadIdx.x); entry < min(t.end, t.valid); entry += kThreads) {
    const std::int64_t e = t.at + entry;
    if (p.reads.match[t.at + p.reads.position[e]] >= 0) continue;
    p.log_q[e] = 0.0f;
    device::set_value(p.q_weight, e, decayed(device::value_at(p.q, e), 0.0f));
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

device::LaunchShape shape_of(const Params& p, int positions) {
  return {dim3(static_cast<unsigned>(p.dims.chunks() * device::ceil_div(positions, kTile))), kThreads, 0};
}

std::string refuse(const Params&, const Device&) { return ""; }

void launch(const Params& p, const LaunchContext& context) {
  const int writes = p.dims.write_positions(), reads = p.dims.read_positions();
  device::launch(writes_kernel, shape_of(p, writes), context, p, device::ceil_div(writes, kTile));
  device::launch(reads_kernel, shape_of(p, reads), context, p, device::ceil_div(reads, kTile));
}

std::string describe_launch(const Params& p, const LaunchContext&) {
  return "writes " + device::describe(shape_of(p, p.dims.write_positions())) + "; reads " +
         device::describe(shape_of(p, p.dims.read_positions())) + "; tiles of " + std::to_string(kTile);
}

}  // namespace

const Variant<Params> group_scan = {
    .name = "group_scan",
    .why = "any shape",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::decay_sums
