// decay_sums, variant `chunk_scan`: a CTA takes a chunk, writes then reads, with the sums by entry in shared memory.
// What is scattered between the orders (entries, sorted positions) is scattered there; global accesses are in order,
// but for the strengths, which a chunk finds in L1.
#include "kernels/common/residency.cuh"
#include "kernels/decay_sums/entries.cuh"

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

/// By entry, in shared memory. `total` holds the gates until a group's sums are known.
struct Sums {
  float *log_k, *rex, *total;
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

/// A sorted position and what is read for it; kAhead of them are in flight a thread.
struct Position {
  std::uint32_t payload;
  std::int32_t slot, match;
  float strength, beta;
};
inline constexpr int kAhead = 2;

/// Records are read much later: they should leave L2 to what the next stages read.
__device__ __forceinline__ void store_record(Record* at, const Record& record) {
  __stcs(reinterpret_cast<uint4*>(at), *reinterpret_cast<const uint4*>(&record));
}

/// use(i, load(i)) for the CTA's share of 0 .. count-1.
template <typename Load, typename Use>
__device__ __forceinline__ void in_entries(int count, Load&& load, Use&& use) {
  device::in_batches<4>(static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x), count, load, use);
}

template <typename V>
__device__ __forceinline__ float strength_at(const void* data, std::int64_t e) {
  return load_element(static_cast<const V*>(data)[e]);
}

template <typename V>
__device__ __forceinline__ void write_records(const Params& p, const Side& side, const Sums& sums, const float* beta) {
  const int threads = static_cast<int>(blockDim.x);
  for (int base = static_cast<int>(threadIdx.x); base < side.positions; base += kAhead * threads) {
    Position at[kAhead] = {};
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      const int i = base + b * threads;
      if (i < side.positions) at[b].payload = side.payload[i], at[b].slot = side.slot[i];
    }
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      if (base + b * threads >= side.valid) continue;
      at[b].strength = strength_at<V>(p.k.data, side.at + entry_at(at[b].payload, side.entries));
      at[b].beta = beta[token_of(at[b].payload)];
    }
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      const int i = base + b * threads;
      if (i >= side.positions) continue;
      Record write{at[b].payload, 0, 0.0f, 1.0f}, undo = write;
      if (i < side.valid) {
        const int e = entry_at(at[b].payload, side.entries);
        const float cpe = exp_rn(sums.total[e]), k_weight = decayed(at[b].strength, sums.log_k[e]);
        write = {at[b].payload, at[b].slot, decayed(at[b].strength, sums.rex[e]), cpe};
        undo = {at[b].payload, at[b].slot, undo_scale(at[b].beta, k_weight), cpe};
        sums.total[e] = k_weight;  // its total is used up
      }
      store_record(p.write_record + side.at + i, write);
      store_record(p.undo_record + side.at + i, undo);
    }
  }
}

template <typename V>
__device__ __forceinline__ void write_entries(const Params& p, const Side& side, const Sums& sums) {
  const auto load = [&](int e) { return e < side.valid ? strength_at<V>(p.k.data, side.at + e) : 0.0f; };
  in_entries(side.positions, load, [&](int e, float k) {
    const bool valid = e < side.valid;
    const float log_k = valid ? sums.log_k[e] : 0.0f, rex = valid ? sums.rex[e] : 0.0f;
    store_entry(p, side.at + e, log_k, rex, valid ? sums.total[e] : 0.0f, valid ? decayed(k, rex) : 0.0f);
  });
}

/// Read records in sorted order; log_q and the weights by entry go to shared memory.
template <typename V>
__device__ __forceinline__ void read_records(const Params& p, const Side& side, const Side& writes, const float* log_k,
                                             float* log_q, float* q_weight) {
  const int threads = static_cast<int>(blockDim.x);
  for (int base = static_cast<int>(threadIdx.x); base < side.positions; base += kAhead * threads) {
    Position at[kAhead] = {};
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      const int i = base + b * threads;
      if (i >= side.positions) continue;
      at[b].payload = side.payload[i], at[b].slot = side.slot[i], at[b].match = p.reads.match[side.at + i];
    }
#pragma unroll
    for (int b = 0; b < kAhead; ++b)
      if (base + b * threads < side.valid)
        at[b].strength = strength_at<V>(p.q.data, side.at + entry_at(at[b].payload, side.entries));
#pragma unroll
    for (int b = 0; b < kAhead; ++b) {
      const int i = base + b * threads;
      if (i >= side.positions) continue;
      Record record{at[b].payload, 0, 0.0f, 1.0f};
      float log = 0.0f;
      if (i < side.valid) {
        if (at[b].match >= 0) {
          const std::uint32_t member =
              last_member(writes.payload + at[b].match, token_of(at[b].payload), writes.valid - at[b].match);
          if (member != 0) log = log_k[entry_at(member, writes.entries)];
        }
        record = {at[b].payload, at[b].slot, decayed(at[b].strength, log), 0.0f};
      }
      const int e = entry_at(at[b].payload, side.entries);
      log_q[e] = log;
      q_weight[e] = record.scale;
      store_record(p.read_record + side.at + i, record);
    }
  }
}

__device__ __forceinline__ void read_entries(const Params& p, const Side& side, const float* log_q,
                                             const float* q_weight) {
  for (int e = static_cast<int>(threadIdx.x); e < side.positions; e += static_cast<int>(blockDim.x)) {
    p.log_q[side.at + e] = log_q[e];
    device::set_value(p.q_weight, side.at + e, q_weight[e]);
  }
}

/// grid: chunks. Shared: log_k, rex, total of the writes; log_q and the weights of the reads follow log_k. V: of k and
/// q.
template <typename V>
__global__ void __launch_bounds__(1024, device::kResidentThreads / 1024)
    chunk_scan_kernel(const __grid_constant__ Params p) {
  device::wait_for_previous_grid();
  const std::int64_t chunk = blockIdx.x;
  const int n = p.dims.write_positions();
  const Side writes(p.writes, p.dims, chunk, p.dims.writes), reads(p.reads, p.dims, chunk, p.dims.reads);
  float* shared = reinterpret_cast<float*>(device::dynamic_shared());
  const Sums sums{shared, shared + n, shared + 2 * n};
  const std::int64_t tokens = chunk * p.dims.chunk;
  const device::Divider by_token(writes.entries);
  const float* gates = p.g + (p.gate == Gate::write ? writes.at : tokens);
  const auto gate_of = [&](int e) { return gates[p.gate == Gate::write ? e : by_token.quotient(e)]; };
  in_entries(writes.valid, gate_of, [&](int e, float gate) {
    sums.log_k[e] = sums.total[e] = gate;
    sums.rex[e] = 0.0f;
  });
  __syncthreads();
  const auto payload_of = [&](int i) { return writes.payload[i]; };
  in_entries(writes.valid, payload_of, [&](int i, std::uint32_t payload) {
    if ((payload & (kFirst | kLast)) == kFirst) walk_group(sums, writes.payload + i, writes.entries);
  });
  __syncthreads();
  write_records<V>(p, writes, sums, p.beta + tokens);
  __syncthreads();
  write_entries<V>(p, writes, sums);
  __syncthreads();  // the reads take the place of rex and total
  float *log_q = shared + n, *q_weight = log_q + reads.positions;
  read_records<V>(p, reads, writes, sums.log_k, log_q, q_weight);
  __syncthreads();
  read_entries(p, reads, log_q, q_weight);
}

// --- launchers -------------------------------------------------------------------------------------------------------

device::LaunchShape shape_of(const Params& p, const Geometry& geometry) {
  const int writes = p.dims.write_positions(), reads = p.dims.read_positions();
  const int largest = writes > reads ? writes : reads;
  // Two CTAs of 1024 threads fill a multiprocessor; their loads and stores come at different times. default took 70 us
  // on an H200, with four CTAs of 512 threads, whose stores all come at once, 72.
  int threads = largest <= 1024 ? 128 : 1024;
  if (geometry.warps >= 1 && geometry.warps <= 32) threads = 32 * geometry.warps;
  const int floats = writes + 2 * largest;
  return {dim3(static_cast<unsigned>(p.dims.chunks())), threads, static_cast<std::size_t>(floats) * 4};
}

std::string refuse(const Params& p, const Device& device) {
  if (p.k.dtype != p.q.dtype) return "chunk_scan takes k and q of one type (group_scan takes any)";
  constexpr std::size_t kReserved = 1024;  // of the driver, for each CTA
  const std::size_t needed = 2 * (shape_of(p, {}).shared_bytes + kReserved);
  if (needed <= device.shared_memory_per_multiprocessor) return "";
  return "chunk_scan wants " + std::to_string(needed) + " bytes of shared memory for two chunks; a multiprocessor of " +
         "this device has " + std::to_string(device.shared_memory_per_multiprocessor) +
         " (a smaller chunk, fewer entries a token, or group_scan)";
}

void launch(const Params& p, const LaunchContext& context) {
  dispatch_real(p.k.dtype,
                [&]<typename V>() { device::launch(chunk_scan_kernel<V>, shape_of(p, context.geometry), context, p); });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  return device::describe(shape_of(p, context.geometry)) + ", a chunk a CTA";
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
