#pragma once
// Walks over the members of a group and over the reads of its slot: what an entry needs of others (orders: contract.h).
// Device only.
#include "kernels/common/entry_values.cuh"
#include "kernels/parameter_gradients/contract.h"
#include "kernels/parameter_gradients/parameter_gradients.h"

namespace sdm::parameter_gradients {

/// A member of a group, found by its sorted position.
struct Member {
  std::int64_t at;  // in [N, C, entries]
  int token;
  bool last;
};

/// One chunk as the walks see it. Members are looked at four at a time, so that what is loaded of them is on its way
/// together: most groups end within the first four.
struct ChunkWalk {
  static constexpr int kBatch = 4;
  const Params& p;
  std::int64_t chunk;

  __device__ __forceinline__ std::int64_t write_at() const { return chunk * p.dims.write_positions(); }
  __device__ __forceinline__ std::int64_t read_at() const { return chunk * p.dims.read_positions(); }
  __device__ __forceinline__ Member member(std::int64_t at, int entries, std::uint32_t payload) const {
    return {at + token_of(payload) * entries + entry_of(payload), token_of(payload), (payload & kLast) != 0};
  }
  __device__ __forceinline__ Member write(std::uint32_t payload) const {
    return member(write_at(), p.dims.writes, payload);
  }
  __device__ __forceinline__ Member read(std::uint32_t payload) const {
    return member(read_at(), p.dims.reads, payload);
  }
  /// Positions past the chunk's last one give that one: a group has ended before.
  __device__ __forceinline__ std::uint32_t write_payload(int position) const {
    return p.writes.payload[write_at() + min(position, p.dims.write_positions() - 1)];
  }
  __device__ __forceinline__ std::uint32_t read_payload(int position) const {
    return p.reads.payload[read_at() + min(position, p.dims.read_positions() - 1)];
  }
  __device__ __forceinline__ float beta(int token) const { return p.beta[chunk * p.dims.chunk + token]; }
  __device__ __forceinline__ float of_pair(const float* square, int later, int earlier) const {
    return square[(chunk * p.dims.chunk + later) * p.dims.chunk + earlier];
  }
};

/// What a pair's term is made of.
struct PairTerm {
  bool counts, is_row;
  float d_pair, strength, log;
};

/// Sums over the other members of the write's group: earlier ones, then later ones.
__device__ __forceinline__ WriteSums sums_of(const ChunkWalk& w, const Member& e, int position, int distance,
                                             float log_e) {
  const Params& p = w.p;
  WriteSums s;
  bool more = distance > 0 || !e.last;
  for (int base = position - distance; more; base += ChunkWalk::kBatch) {
    std::uint32_t payload[ChunkWalk::kBatch];
    PairTerm term[ChunkWalk::kBatch];
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b) payload[b] = w.write_payload(base + b);
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b) {
      term[b].counts = more && base + b != position;
      if (!more) continue;
      const Member j = w.write(payload[b]);
      more = !j.last;
      if (!term[b].counts) continue;
      term[b].is_row = base + b < position;
      const int later = term[b].is_row ? e.token : j.token, earlier = term[b].is_row ? j.token : e.token;
      term[b].d_pair = d_a(w.beta(later), w.of_pair(p.dm, later, earlier));
      term[b].strength = device::value_at(p.k, j.at);
      term[b].log = p.log_k[j.at];
    }
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b) {
      if (!term[b].counts) continue;
      if (term[b].is_row)
        s.row = add_pair(term[b].d_pair, term[b].strength, log_e, term[b].log, s.row);
      else
        s.col = add_pair(term[b].d_pair, term[b].strength, term[b].log, log_e, s.col);
    }
  }
  return s;
}

/// Reads of the slot at the write's token or later.
__device__ __forceinline__ float read_sum_of(const ChunkWalk& w, const Member& e, int match, float log_e) {
  const Params& p = w.p;
  float sum = 0.0f;
  for (bool more = match >= 0; more; match += ChunkWalk::kBatch) {
    std::uint32_t payload[ChunkWalk::kBatch];
    PairTerm term[ChunkWalk::kBatch];
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b) payload[b] = w.read_payload(match + b);
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b) {
      const Member r = w.read(payload[b]);
      term[b].counts = more && r.token >= e.token;
      more = more && !r.last;
      if (!term[b].counts) continue;
      term[b].d_pair = w.of_pair(p.dqk, r.token, e.token);
      term[b].strength = device::value_at(p.q, r.at);
      term[b].log = p.log_q[r.at];
    }
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b)
      if (term[b].counts) sum = add_pair(term[b].d_pair, term[b].strength, term[b].log, log_e, sum);
  }
  return sum;
}

__device__ __forceinline__ void write_entry(const ChunkWalk& w, int entry) {
  const Params& p = w.p;
  const std::int64_t e = w.write_at() + entry;
  const int position = p.writes.position[e];
  const std::uint32_t payload = w.write_payload(position);
  const Member self = w.write(payload);
  const int match = p.writes.match[w.write_at() + position];
  const float k = device::value_at(p.k, e), log_e = p.log_k[e], rex = p.rex[e], d_kw = p.d_kw[e], d_ww = p.d_ww[e];
  WriteSums sums = sums_of(w, self, position, distance_of(payload), log_e);
  sums.read = read_sum_of(w, self, match, log_e);
  const WriteGradients g = write_gradients(k, log_e, rex, d_kw, d_ww, sums);
  p.d_k[e] = g.d_k;
  p.d_log_k[e] = g.d_log_k;
  p.d_rex[e] = g.d_rex;
}

__device__ __forceinline__ void read_entry(const ChunkWalk& w, int entry) {
  const Params& p = w.p;
  const std::int64_t at = w.read_at(), e = at + entry;
  const int token = entry / p.dims.reads;
  const float log_q = p.log_q[e], q = device::value_at(p.q, e), d_qw = p.d_qw[e];
  float rd = 0.0f;
  int match = p.reads.match[at + p.reads.position[e]];
  for (bool more = match >= 0; more; match += ChunkWalk::kBatch) {
    std::uint32_t payload[ChunkWalk::kBatch];
    PairTerm term[ChunkWalk::kBatch];
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b) payload[b] = w.write_payload(match + b);
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b) {
      term[b].counts = false;
      if (!more) continue;
      const Member j = w.write(payload[b]);
      term[b].counts = j.token <= token;
      more = !j.last && term[b].counts;  // tokens ascend: all later ones are past it too
      if (!term[b].counts) continue;
      term[b].d_pair = w.of_pair(p.dqk, token, j.token);
      term[b].strength = device::value_at(p.k, j.at);
      term[b].log = p.log_k[j.at];
    }
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b)
      if (term[b].counts) rd = add_pair(term[b].d_pair, term[b].strength, log_q, term[b].log, rd);
  }
  const ReadGradients g = read_gradients(q, log_q, d_qw, rd);
  p.d_q[e] = g.d_q;
  p.d_log_q[e] = g.d_log_q;
}

/// ((0 + value(0)) + value(1)) + ..
template <typename Value>
__device__ __forceinline__ float sum_of(int count, Value&& value) {
  float sum = 0.0f;
  for (int base = 0; base < count; base += ChunkWalk::kBatch) {
    float x[ChunkWalk::kBatch];
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b)
      if (base + b < count) x[b] = value(base + b);
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b)
      if (base + b < count) sum = sum + x[b];
  }
  return sum;
}

/// The gate gradient of a write whose decay sums and those of its group are there.
__device__ __forceinline__ float write_gate(const ChunkWalk& w, int entry) {
  const Params& p = w.p;
  const std::int64_t e = w.write_at() + entry;
  const int position = p.writes.position[e];
  const float d_decay = p.d_decay[e];
  const std::uint32_t payload = w.write_payload(position);
  const Member self = w.write(payload);
  const int match = p.writes.match[w.write_at() + position];
  const int begin = position - distance_of(payload);
  int last = position;
  for (bool more = !self.last; more;) more = (w.write_payload(++last) & kLast) == 0;
  const auto at_write = [&](int i) { return w.write(w.write_payload(i)).at; };
  const float later = sum_of(last - position + 1, [&](int n) { return p.d_log_k[at_write(last - n)]; });
  const float earlier = sum_of(position - begin, [&](int n) { return p.d_rex[at_write(begin + n)]; });
  int last_read = match - 1, counted = 0;  // reads at the own token or later, which are the last ones
  for (bool more = match >= 0; more;) {
    std::uint32_t read[ChunkWalk::kBatch];
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b) read[b] = w.read_payload(last_read + 1 + b);
#pragma unroll
    for (int b = 0; b < ChunkWalk::kBatch; ++b) {
      if (!more) continue;
      ++last_read;
      counted += token_of(read[b]) >= self.token ? 1 : 0;
      more = (read[b] & kLast) == 0;
    }
  }
  const float read_sum = sum_of(counted, [&](int n) { return p.d_log_q[w.read(w.read_payload(last_read - n)).at]; });
  return ((d_decay + later) + earlier) + read_sum;
}

}  // namespace sdm::parameter_gradients
