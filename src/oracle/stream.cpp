#include "oracle/stream.h"

#include <algorithm>

namespace sdm::oracle {

namespace {

std::vector<std::int32_t> local_rows(const StreamMap& map, const std::vector<std::int32_t>& absolute, int width) {
  std::vector<std::int32_t> local(std::size_t(map.w.tokens) * width);
  for (int t = 0; t < map.w.tokens; ++t)
    for (int n = 0; n < width; ++n) {
      const std::int32_t row = absolute[map.padded(t) * width + n];
      const auto found = std::lower_bound(map.rows.begin(), map.rows.end(), row);
      local[std::int64_t{t} * width + n] = static_cast<std::int32_t>(found - map.rows.begin());
    }
  return local;
}

void sort_unique(std::vector<std::int32_t>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace

StreamMap::StreamMap(const SparseWorkload& workload, const SparseInputs& inputs, int stream_)
    : w(workload), in(inputs), stream(stream_), gate_width(workload.gate == Gate::token ? 1 : workload.writes) {
  for (int t = 0; t < w.tokens; ++t) {
    const auto k_begin = in.k_idx.begin() + padded(t) * w.writes;
    const auto q_begin = in.q_idx.begin() + padded(t) * w.reads;
    rows.insert(rows.end(), k_begin, k_begin + w.writes);
    rows.insert(rows.end(), q_begin, q_begin + w.reads);
  }
  sort_unique(rows);
  k_row = local_rows(*this, in.k_idx, w.writes);
  q_row = local_rows(*this, in.q_idx, w.reads);
  written.resize(w.steps());
  for (int chunk = 0; chunk < w.steps(); ++chunk) {
    written[chunk].assign(k_row.begin() + std::int64_t{chunk_begin(chunk)} * w.writes,
                          k_row.begin() + std::int64_t{chunk_end(chunk)} * w.writes);
    sort_unique(written[chunk]);
  }
}

StreamDots::StreamDots(const SparseWorkload& w) {
  const auto writes = std::size_t(w.tokens) * w.writes, reads = std::size_t(w.tokens) * w.reads;
  for (auto* x : {&d_k, &d_g, &d_k_var, &d_g_var}) x->assign(writes, 0.0);
  for (auto* x : {&d_q, &d_q_var}) x->assign(reads, 0.0);
  for (auto* x : {&d_beta, &d_beta_var, &d_g_token_var}) x->assign(std::size_t(w.tokens), 0.0);
}

}  // namespace sdm::oracle
