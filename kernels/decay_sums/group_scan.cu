#include "kernels/decay_sums/entries.cuh"

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

__device__ __forceinline__ float gate_of(const Params& p, const Tile& t, int entry) {
  return p.g[p.gate == Gate::write ? t.at + entry : t.chunk * p.dims.chunk + entry / t.entries];
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

/// What is read for a position or an entry, kBatch of them at a time; what a loop does not need, the compiler drops.
struct Values {
  std::uint32_t payload;
  std::int32_t slot, match;
  float strength, beta, gate;
};
constexpr int kBatch = 4;

template <typename Load, typename Use>
__device__ __forceinline__ void in_tile(int begin, int end, Load&& load, Use&& use) {
  device::in_batches<kBatch>(begin + static_cast<int>(threadIdx.x), kThreads, end, load, use);
}

/// Records in sorted order. The arrays by entry are written here for members of longer groups (scattered), and by
/// singleton_entries for all others, in order: nearly every write then is whole sectors.
__device__ __forceinline__ void write_records(const Params& p, const Tile& t, const SharedGroups& s, int begin,
                                              int end) {
  const auto load = [&](int i) -> Values {
    const std::uint32_t payload = s.payload[i - begin];
    if (i >= t.valid) return {payload, 0, -1, 0.0f, 0.0f, 0.0f};
    return {payload,
            p.writes.slot[t.at + i],
            -1,
            device::value_at(p.k, t.at + entry_at(payload, t.entries)),
            p.beta[t.chunk * p.dims.chunk + token_of(payload)],
            0.0f};
  };
  in_tile(begin, end, load, [&](int i, const Values& v) {
    const int m = i - begin;
    const std::int64_t e = t.at + entry_at(v.payload, t.entries);
    if (i >= t.valid) {
      store_entry(p, e, 0.0f, 0.0f, 0.0f, 0.0f);
      p.write_record[t.at + i] = p.undo_record[t.at + i] = Record{v.payload, 0, 0.0f, 1.0f};
      return;
    }
    const float k_weight = decayed(v.strength, s.log_k[m]), write_weight = decayed(v.strength, s.gate[m]);
    p.write_record[t.at + i] = Record{v.payload, v.slot, write_weight, s.cpe[m]};
    p.undo_record[t.at + i] = Record{v.payload, v.slot, undo_scale(v.beta, k_weight), s.cpe[m]};
    if ((v.payload & (kFirst | kLast)) != (kFirst | kLast))
      store_entry(p, e, s.log_k[m], s.gate[m], k_weight, write_weight);
  });
}

__device__ __forceinline__ void singleton_entries(const Params& p, const Tile& t) {
  const auto load = [&](int entry) -> Values {
    const std::int64_t e = t.at + entry;
    const std::uint32_t payload = p.writes.payload[t.at + p.writes.position[e]];
    return {payload, 0, -1, device::value_at(p.k, e), 0.0f, gate_of(p, t, entry)};
  };
  in_tile(t.begin, min(t.end, t.valid), load, [&](int entry, const Values& v) {
    if ((v.payload & (kFirst | kLast)) == (kFirst | kLast))
      store_entry(p, t.at + entry, v.gate, 0.0f, decayed(v.strength, v.gate), decayed(v.strength, 0.0f));
  });
}

__global__ void __launch_bounds__(kThreads, 5) writes_kernel(const __grid_constant__ Params p, int tiles) {
  __shared__ SharedGroups s;
  device::wait_for_previous_grid();
  const Tile t = tile_of(p, p.dims.writes, tiles);
  const int windows = window_count(p.dims.write_positions());
  const Window* window = p.writes.window + t.chunk * windows;
  const int begin = window[t.begin / 32].next_first;
  const int end = window[min((t.begin + kTile) / 32, windows - 1)].next_first;
  const auto load = [&](int i) -> Values {
    const std::uint32_t payload = p.writes.payload[t.at + i];
    return {payload, 0, -1, 0.0f, 0.0f, i < t.valid ? gate_of(p, t, entry_at(payload, t.entries)) : 0.0f};
  };
  in_tile(begin, end, load, [&](int i, const Values& v) {
    s.payload[i - begin] = v.payload;
    s.gate[i - begin] = v.gate;
  });
  __syncthreads();
  for (int i = begin + static_cast<int>(threadIdx.x); i < min(end, t.valid); i += kThreads)
    if (s.payload[i - begin] & kFirst) walk_group(s, i - begin);
  __syncthreads();
  write_records(p, t, s, begin, end);
  singleton_entries(p, t);
}

/// log_k of the last member with token <= `token` of the write group that begins at `first`; 0 where there is none.
__device__ __forceinline__ float log_q_of(const Params& p, std::int64_t write_at, int first, int token, int valid) {
  const std::uint32_t member = last_member(p.writes.payload + write_at + first, token, valid - first);
  return member == 0 ? 0.0f : p.log_k[write_at + entry_at(member, p.dims.writes)];
}

__global__ void __launch_bounds__(kThreads, 5) reads_kernel(const __grid_constant__ Params p, int tiles) {
  device::wait_for_previous_grid();
  const Tile t = tile_of(p, p.dims.reads, tiles);
  const std::int64_t write_at = t.chunk * p.dims.write_positions();
  const int write_valid = p.dims.valid_tokens_of_chunk(t.chunk) * p.dims.writes;
  const auto load = [&](int i) -> Values {
    const std::uint32_t payload = p.reads.payload[t.at + i];
    if (i >= t.valid) return {payload, 0, -1, 0.0f, 0.0f, 0.0f};
    return {payload,
            p.reads.slot[t.at + i],
            p.reads.match[t.at + i],
            device::value_at(p.q, t.at + entry_at(payload, t.entries)),
            0.0f,
            0.0f};
  };
  in_tile(t.begin, t.end, load, [&](int i, const Values& v) {
    const std::int64_t e = t.at + entry_at(v.payload, t.entries);
    const bool valid = i < t.valid;
    const float log_q = v.match < 0 ? 0.0f : log_q_of(p, write_at, v.match, token_of(v.payload), write_valid);
    const float q_weight = valid ? decayed(v.strength, log_q) : 0.0f;
    p.read_record[t.at + i] = valid ? Record{v.payload, v.slot, q_weight, 0.0f} : Record{v.payload, 0, 0.0f, 1.0f};
    if (v.match >= 0 || !valid) {
      p.log_q[e] = log_q;
      device::set_value(p.q_weight, e, q_weight);
    }
  });
  const auto load_entry = [&](int entry) -> Values {
    const std::int64_t e = t.at + entry;
    return {0, 0, p.reads.match[t.at + p.reads.position[e]], device::value_at(p.q, e), 0.0f, 0.0f};
  };
  in_tile(t.begin, min(t.end, t.valid), load_entry, [&](int entry, const Values& v) {
    if (v.match >= 0) return;
    p.log_q[t.at + entry] = 0.0f;
    device::set_value(p.q_weight, t.at + entry, decayed(v.strength, 0.0f));
  });
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
    .why = "any shape: tiles of sorted positions",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::decay_sums
