#include "kernels/common/host.h"
#include "kernels/interactions/contract.h"
#include "kernels/interactions/interactions.h"

namespace sdm::interactions {
namespace {

struct WriteEntry {
  std::int64_t at;  // of the entry in [N, C, W]
  int token;
};
WriteEntry write_entry(const Params& p, std::int64_t chunk_at, int position) {
  const std::uint32_t payload = p.writes.payload[chunk_at + position];
  return {chunk_at + std::int64_t{token_of(payload)} * p.dims.writes + entry_of(payload), token_of(payload)};
}

/// Row t of A: own entries ascending, each against the earlier members of its group.
void a_row(const Params& p, std::int64_t chunk, int token, float* row) {
  const std::int64_t at = chunk * p.dims.write_positions();
  for (int n = 0; n < p.dims.writes; ++n) {
    const std::int64_t e = at + std::int64_t{token} * p.dims.writes + n;
    const int position = p.writes.position[e];
    const int first = position - distance_of(p.writes.payload[at + position]);
    for (int i = first; i < position; ++i) {
      const WriteEntry j = write_entry(p, at, i);
      row[j.token] =
          add_pair(host::value_at(p.k, e), p.log_k[e], host::value_at(p.k, j.at), p.log_k[j.at], row[j.token]);
    }
  }
}

/// Row t of QK: own reads ascending, each against the members of its slot's write group up to its own token.
void qk_row(const Params& p, std::int64_t chunk, int token, float* row) {
  const std::int64_t at = chunk * p.dims.read_positions(), write_at = chunk * p.dims.write_positions();
  for (int m = 0; m < p.dims.reads; ++m) {
    const std::int64_t e = at + std::int64_t{token} * p.dims.reads + m;
    int i = p.reads.match[at + p.reads.position[e]];
    for (bool more = i >= 0; more; ++i) {
      const WriteEntry j = write_entry(p, write_at, i);
      if (j.token > token) break;
      row[j.token] =
          add_pair(host::value_at(p.q, e), p.log_q[e], host::value_at(p.k, j.at), p.log_k[j.at], row[j.token]);
      more = !(p.writes.payload[write_at + i] & kLast);
    }
  }
}

}  // namespace

void replay(const Params& p, Parallel& threads) {
  const int c = p.dims.chunk;
  threads.for_ranges(p.dims.chunks() * c, 16, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t chunk = row / c;
      const int token = static_cast<int>(row % c);
      float* a = p.a + row * c;
      float* qk = p.qk + row * c;
      std::fill(a, a + token + 1, 0.0f);
      std::fill(qk, qk + token + 1, 0.0f);
      if (token >= p.dims.valid_tokens_of_chunk(chunk)) continue;
      a_row(p, chunk, token, a);
      qk_row(p, chunk, token, qk);
      for (int j = 0; j <= token; ++j) a[j] = canonical(a[j]), qk[j] = canonical(qk[j]);
    }
  });
}

}  // namespace sdm::interactions
