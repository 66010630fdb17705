#include "kernels/common/host.h"
#include "kernels/decay_sums/contract.h"
#include "kernels/decay_sums/decay_sums.h"

namespace sdm::decay_sums {
namespace {

constexpr Record kPaddingRecord{0, 0, 0.0f, 1.0f};

Record padding_record(std::uint32_t payload) {
  Record record = kPaddingRecord;
  record.payload = payload;
  return record;
}

/// One group of writes, sorted positions [begin, end) of a chunk whose arrays start at `at`.
void write_group(const Params& p, std::int64_t chunk, std::int64_t at, int begin, int end) {
  const int w = p.dims.writes;
  const auto entry = [&](int i) {
    const std::uint32_t payload = p.writes.payload[at + i];
    return at + std::int64_t{token_of(payload)} * w + entry_of(payload);
  };
  const auto gate = [&](std::int64_t e) { return p.g[p.gate == Gate::write ? e : e / w]; };
  float sum = gate(entry(begin));
  p.log_k[entry(begin)] = canonical(sum);
  for (int i = begin + 1; i < end; ++i) p.log_k[entry(i)] = canonical(sum = sum + gate(entry(i)));
  const float cpe = canonical(exp_rn(sum));
  float after = 0.0f;
  for (int i = end - 1; i >= begin; --i) {
    const std::int64_t e = entry(i);
    const std::uint32_t payload = p.writes.payload[at + i];
    const float k = host::value_at(p.k, e);
    const float k_weight = decayed(k, p.log_k[e]);
    const float write_weight = canonical(decayed(k, after));
    p.rex[e] = canonical(after);
    host::set_value(p.k_weight, e, k_weight);
    p.write_weight[e] = write_weight;
    const std::int32_t slot = p.writes.slot[at + i];
    const float beta = p.beta[chunk * p.dims.chunk + token_of(payload)];
    p.write_record[at + i] = {payload, slot, write_weight, cpe};
    p.undo_record[at + i] = {payload, slot, canonical(undo_scale(beta, k_weight)), cpe};
    after = after + gate(e);
  }
}

void writes_of_chunk(const Params& p, std::int64_t chunk) {
  const int n = p.dims.write_positions(), valid = p.dims.valid_tokens_of_chunk(chunk) * p.dims.writes;
  const std::int64_t at = chunk * n;
  for (int begin = 0; begin < valid;) {
    int end = begin + 1;
    while (!(p.writes.payload[at + end - 1] & kLast)) ++end;
    write_group(p, chunk, at, begin, end);
    begin = end;
  }
  for (int i = valid; i < n; ++i) {  // padding: sorted position and entry are the same
    p.log_k[at + i] = p.rex[at + i] = p.write_weight[at + i] = 0.0f;
    host::set_value(p.k_weight, at + i, 0.0f);
    p.write_record[at + i] = p.undo_record[at + i] = padding_record(p.writes.payload[at + i]);
  }
}

/// log_k of the slot's last write entry with token <= t; groups are ordered by token.
float log_q_of(const Params& p, std::int64_t write_at, int match, int token) {
  float log_q = 0.0f;
  for (int i = match; i >= 0; ++i) {
    const std::uint32_t payload = p.writes.payload[write_at + i];
    if (token_of(payload) > token) break;
    log_q = p.log_k[write_at + std::int64_t{token_of(payload)} * p.dims.writes + entry_of(payload)];
    if (payload & kLast) break;
  }
  return log_q;
}

void reads_of_chunk(const Params& p, std::int64_t chunk) {
  const int n = p.dims.read_positions(), valid = p.dims.valid_tokens_of_chunk(chunk) * p.dims.reads;
  const std::int64_t at = chunk * n;
  for (int i = 0; i < valid; ++i) {
    const std::uint32_t payload = p.reads.payload[at + i];
    const std::int64_t e = at + std::int64_t{token_of(payload)} * p.dims.reads + entry_of(payload);
    const float log_q = log_q_of(p, chunk * p.dims.write_positions(), p.reads.match[at + i], token_of(payload));
    const float q_weight = decayed(host::value_at(p.q, e), log_q);
    p.log_q[e] = log_q;
    host::set_value(p.q_weight, e, q_weight);
    p.read_record[at + i] = {payload, p.reads.slot[at + i], canonical(q_weight), 0.0f};
  }
  for (int i = valid; i < n; ++i) {
    p.log_q[at + i] = 0.0f;
    host::set_value(p.q_weight, at + i, 0.0f);
    p.read_record[at + i] = padding_record(p.reads.payload[at + i]);
  }
}

}  // namespace

void replay(const Params& p, Parallel& threads) {
  threads.for_each(p.dims.chunks(), [&](std::int64_t chunk) {
    writes_of_chunk(p, chunk);
    reads_of_chunk(p, chunk);
  });
}

}  // namespace sdm::decay_sums
