// decay_sums, variant `chunk_scan`: a CTA takes a chunk, writes then reads, with strengths and sums by entry in shared
// memory. What is scattered between the orders (entries, sorted positions) is scattered there; global accesses are in
// order, but for log_k and rex of groups of several members, which are few where slots are uniform.
#include "kernels/common/async_copy.cuh"
#include "kernels/common/residency.cuh"
#include "kernels/decay_sums/entries.cuh"
#include "kernels/decay_sums/fours.cuh"

namespace sdm::decay_sums {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

/// What a CTA knows of one side of its chunk.
struct Side {
  const std::uint32_t* payload;
  const std::int32_t* slot;
  std::int64_t at;  // of the chunk's first position and first entry
  int entries, positions, valid;

  __device__ __forceinline__ Side(const Groups& groups, const Dims& dims, std::int64_t chunk, int entries_)
      : at(chunk * dims.chunk * entries_),
        entries(entries_),
        positions(dims.chunk * entries_),
        valid(dims.valid_tokens_of_chunk(chunk) * entries_) {
    payload = groups.payload + at;
    slot = groups.slot + at;
  }
};

/// By entry: what the sorted order takes lies in shared memory, log_k and rex (of the chunk) where they go.
struct Sums {
  float* total;  ///< shared: the gates until a group's sums are known, then k*exp(log_k)
  float* k;      ///< shared, then k*exp(rex)
  float *log_k, *rex;
};

/// One thread walks a group of several members from its FIRST: log_k forwards, rex backwards. A group of one is right
/// from the start: log_k = total = gate, rex = 0.
__device__ __forceinline__ void walk_group(const Sums& sums, const std::uint32_t* first, int entries) {
  float sum = sums.total[entry_at(first[0], entries)];
  int last = 0;
  std::uint32_t payload;
  do {
    payload = first[++last];
    const int e = entry_at(payload, entries);
    sum = sum + sums.total[e];
    sums.log_k[e] = sum;
  } while ((payload & kLast) == 0);
  float after = 0.0f;
  for (int m = last; m >= 0; --m) {
    const int e = entry_at(first[m], entries);
    const float gate = sums.total[e];
    sums.rex[e] = after;
    sums.total[e] = sum;
    after = after + gate;
  }
}

inline constexpr int kAhead = 2;  // sorted positions of a thread in flight

template <typename V>
__device__ __forceinline__ void load_writes(const Params& p, const Side& side, const float* gates, const Sums& sums) {
  const device::Divider by_token(side.entries);
  const bool vectors = side.positions % 4 == 0;
  const V* k = static_cast<const V*>(p.k.data) + side.at;
  in_fours(side.positions, [&](int e) {
    const float4 strength = load_four(k, e, side.valid, vectors);
    float4 gate;
    if (p.gate == Gate::write) {
      gate = load_four(gates, e, side.valid, vectors);
    } else {
      const auto gate_of = [&](int i) { return i < side.valid ? gates[by_token.quotient(i)] : 0.0f; };
      gate = make_float4(gate_of(e), gate_of(e + 1), gate_of(e + 2), gate_of(e + 3));
    }
    four_at(sums.total, e) = gate;
    four_at(sums.k, e) = strength;
    store_four(sums.log_k, e, side.positions, vectors, gate);
    store_four(sums.rex, e, side.positions, vectors, float4{});
  });
}

__device__ __forceinline__ void write_records(const Params& p, const Side& side, const Sums& sums, const float* beta) {
  const int threads = static_cast<int>(blockDim.x);
  for (int base = static_cast<int>(threadIdx.x); base < side.positions; base += kAhead * threads) {
    std::uint32_t payload[kAhead];
    std::int32_t slot[kAhead];
    float factor[kAhead];
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      const int i = base + b * threads;
      if (i < side.positions) payload[b] = side.payload[i], slot[b] = side.slot[i];
    }
#pragma unroll
    for (int b = 0; b < kAhead; ++b)
      if (base + b * threads < side.valid) factor[b] = beta[token_of(payload[b])];
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      const int i = base + b * threads;
      if (i >= side.positions) continue;
      Record write{payload[b], 0, 0.0f, 1.0f}, undo = write;
      if (i < side.valid) {
        const int e = entry_at(payload[b], side.entries);
        const float k = sums.k[e], total = sums.total[e], cpe = exp_rn(total);
        float k_weight = k * cpe, write_weight = times_one(k);  // of a group of one
        if ((payload[b] & (kFirst | kLast)) != (kFirst | kLast))
          k_weight = decayed(k, sums.log_k[e]), write_weight = decayed(k, sums.rex[e]);
        write = {payload[b], slot[b], write_weight, cpe};
        undo = {payload[b], slot[b], undo_scale(factor[b], k_weight), cpe};
        sums.total[e] = k_weight, sums.k[e] = write_weight;  // both are used up
      }
      store_record(p.write_record + side.at + i, write);
      store_record(p.undo_record + side.at + i, undo);
    }
  }
}

/// What is by entry goes out; the strengths of the reads take the place of those of the writes.
template <typename V>
__device__ __forceinline__ void write_entries(const Params& p, const Side& side, const Side& reads, const Sums& sums) {
  const int n = side.positions;
  const bool vectors = n % 4 == 0, read_vectors = reads.positions % 4 == 0;
  const V* q = static_cast<const V*>(p.q.data) + reads.at;
  in_fours(max(n, reads.valid), [&](int e) {
    float4 strength{};
    if (e < reads.valid) strength = load_four(q, e, reads.valid, read_vectors);
    if (e < n) {
      store_four(p.k_weight, side.at, e, n, vectors, load_four(sums.total, e, side.valid, true));
      store_four(p.write_weight + side.at, e, n, vectors, load_four(sums.k, e, side.valid, true));
    }
    if (e < reads.valid) four_at(sums.k, e) = strength;
  });
}

/// Read records in sorted order; log_q goes to shared memory by entry, the weights take the place of q there.
__device__ __forceinline__ void read_records(const Params& p, const Side& side, const Side& writes, const float* log_k,
                                             float* log_q, float* q, const std::int32_t* matches) {
  const int threads = static_cast<int>(blockDim.x);
  for (int base = static_cast<int>(threadIdx.x); base < side.positions; base += kAhead * threads) {
    std::uint32_t payload[kAhead];
    std::int32_t slot[kAhead], match[kAhead];
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      const int i = base + b * threads;
      if (i >= side.positions) continue;
      payload[b] = side.payload[i], slot[b] = side.slot[i], match[b] = matches[i];
    }
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      const int i = base + b * threads;
      if (i >= side.positions) continue;
      const int e = entry_at(payload[b], side.entries);
      Record record{payload[b], 0, 0.0f, 1.0f};
      float log = 0.0f;
      if (i < side.valid) {
        if (match[b] >= 0) {
          const std::uint32_t member =
              last_member(writes.payload + match[b], token_of(payload[b]), writes.valid - match[b]);
          if (member != 0) log = log_k[entry_at(member, writes.entries)];
        }
        record = {payload[b], slot[b], decayed(q[e], log), 0.0f};
      }
      log_q[e] = log;
      q[e] = record.scale;
      store_record(p.read_record + side.at + i, record);
    }
  }
}

__device__ __forceinline__ void read_entries(const Params& p, const Side& side, float* log_q, float* q_weight) {
  const bool vectors = side.positions % 4 == 0;
  in_fours(side.positions, [&](int e) {
    store_four(p.log_q + side.at, e, side.positions, vectors, four_at(log_q, e));
    store_four(p.q_weight, side.at, e, side.positions, vectors, four_at(q_weight, e));
  });
}

constexpr int kMostThreads = 1024, kResidentCtas = device::kResidentThreads / kMostThreads;

/// Floats of a row by entry in shared memory: whole vectors.
SDM_HD int padded(int positions) { return (positions + 3) / 4 * 4; }

/// Shared: total and k of the writes, whose places the reads' log_q and q take, and (`staged`) the
/// payloads of the writes, which walks and reads look up. V: of k and q.
template <typename V>
__device__ __forceinline__ void scan_chunk(const Params& p, std::int64_t chunk, bool staged) {
  const int either = padded(max(p.dims.write_positions(), p.dims.read_positions()));
  Side writes(p.writes, p.dims, chunk, p.dims.writes);
  Side reads(p.reads, p.dims, chunk, p.dims.reads);
  const std::int32_t* matches = p.reads.match + reads.at;
  // Made once: made anew for every load, they take registers that spill (default 64 us on an H200 in place of 61.5).
  asm("" : "+l"(reads.payload), "+l"(reads.slot), "+l"(writes.slot), "+l"(matches));
  float* shared = reinterpret_cast<float*>(device::dynamic_shared());
  const Sums sums{shared, shared + either, p.log_k + writes.at, p.rex + writes.at};
  const std::int64_t tokens = chunk * p.dims.chunk;
  if (staged) {
    auto* payloads = reinterpret_cast<std::uint32_t*>(shared + 2 * either);
    for (int i = 4 * static_cast<int>(threadIdx.x); i < writes.positions; i += 4 * static_cast<int>(blockDim.x))
      device::copy_async<16>(payloads + i, writes.payload + i);
    device::commit_copies();
    writes.payload = payloads;
  }
  load_writes<V>(p, writes, p.g + (p.gate == Gate::write ? writes.at : tokens), sums);
  device::wait_copies_but<0>();
  __syncthreads();
  device::in_batches<4>(
      static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), writes.valid,
      [&](int i) { return writes.payload[i]; },
      [&](int i, std::uint32_t payload) {
        if ((payload & (kFirst | kLast)) == kFirst) walk_group(sums, writes.payload + i, writes.entries);
      });
  __syncthreads();
  write_records(p, writes, sums, p.beta + tokens);
  __syncthreads();
  write_entries<V>(p, writes, reads, sums);
  __syncthreads();  // the reads take the places of total and k
  read_records(p, reads, writes, sums.log_k, sums.total, sums.k, matches);
  __syncthreads();
  read_entries(p, reads, sums.total, sums.k);
}

/// grid: chunks.
template <typename V>
__global__ void __launch_bounds__(kMostThreads, kResidentCtas)
    chunk_scan_kernel(const __grid_constant__ Params p, bool staged) {
  device::wait_for_previous_grid();
  scan_chunk<V>(p, blockIdx.x, staged);
}

/// grid: any. A kernel of its own, since the loop makes it spill.
template <typename V>
__global__ void __launch_bounds__(kMostThreads, kResidentCtas)
    chunk_scan_resident(const __grid_constant__ Params p, bool staged) {
  device::wait_for_previous_grid();
  const int chunks = static_cast<int>(p.dims.chunks());
#pragma unroll 1
  for (int chunk = static_cast<int>(blockIdx.x); chunk < chunks; chunk += static_cast<int>(gridDim.x)) {
    scan_chunk<V>(p, chunk, staged);
    __syncthreads();
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

struct Plan {
  device::LaunchShape shape;
  bool staged, resident;
};

/// Whether two CTAs of `bytes` fit a multiprocessor.
bool two_fit(std::size_t bytes, const Device& device) {
  constexpr std::size_t kReserved = 1024;  // of the driver, for each CTA
  return 2 * (bytes + kReserved) <= device.shared_memory_per_multiprocessor;
}
std::size_t sums_bytes(const Params& p) {
  const int writes = p.dims.write_positions(), reads = p.dims.read_positions();
  return static_cast<std::size_t>(2 * padded(writes > reads ? writes : reads)) * 4;
}

/// Beside launches that go first, a CTA a multiprocessor that stays, where all chunks would be resident at once and
/// leave the others no room. A CTA that ends loses its place to them. H200, small120, decay_sums beside the other
/// stages of prepare: 198 us, 207 by a CTA a chunk, 214 one after the other; default, two waves of CTAs: 175, 157, 165.
bool stays(std::int64_t chunks, int threads, const LaunchContext& context) {
  const int multiprocessors = context.device.multiprocessors;
  return context.share == Share::rest && threads == kMostThreads && chunks > multiprocessors &&
         chunks <= kResidentCtas * multiprocessors;
}

Plan plan_of(const Params& p, const LaunchContext& context) {
  const int writes = p.dims.write_positions(), reads = p.dims.read_positions();
  // Two CTAs of 1024 threads fill a multiprocessor; their loads and stores come at different times. default took 66 us
  // on an H200, with four CTAs of 512 threads, whose stores all come at once, 72; with staged payloads it takes 62.
  int threads = (writes > reads ? writes : reads) <= 1024 ? 128 : 1024;
  if (context.geometry.warps >= 1 && context.geometry.warps <= 32) threads = 32 * context.geometry.warps;
  std::size_t bytes = sums_bytes(p);
  const std::size_t with_payloads = bytes + static_cast<std::size_t>(padded(writes)) * 4;
  const bool staged = writes % 4 == 0 && two_fit(with_payloads, context.device);
  if (staged) bytes = with_payloads;
  const bool resident = stays(p.dims.chunks(), threads, context);
  const std::int64_t ctas = resident ? context.device.multiprocessors : p.dims.chunks();
  return {{dim3(static_cast<unsigned>(ctas)), threads, bytes}, staged, resident};
}

std::string refuse(const Params& p, const Device& device) {
  if (p.k.dtype != p.q.dtype) return "chunk_scan takes k and q of one type (group_scan takes any)";
  if (two_fit(sums_bytes(p), device)) return "";
  return "chunk_scan wants " + std::to_string(sums_bytes(p)) + " bytes of shared memory for each of two chunks; a " +
         "multiprocessor of this device has " + std::to_string(device.shared_memory_per_multiprocessor) +
         " (a smaller chunk, fewer entries a token, or group_scan)";
}

void launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  dispatch_real(p.k.dtype, [&]<typename V>() {
    device::launch(plan.resident ? chunk_scan_resident<V> : chunk_scan_kernel<V>, plan.shape, context, p, plan.staged);
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  return device::describe(plan.shape) + ", a chunk a CTA" + (plan.staged ? ", payloads in shared memory" : "");
}

}  // namespace

const Variant<Params> chunk_scan = {
    .name = "chunk_scan",
    .why = "the sums of a chunk fit in shared memory twice: stores in order, one launch",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::decay_sums
