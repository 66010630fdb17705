#include <cstring>

#include "kernels/common/row_plan.h"
#include "kernels/common/sum_parts.h"
#include "kernels/gather/gather.h"

namespace sdm::gather {
namespace {

struct Operand {
  AnyPtr index, weight;
  int entries;
  float* out;
};

template <typename T>
void sum_token(const Params& p, const Operand& o, std::int64_t row, bool valid, float* scratch) {
  const int d = p.dims.head_dim;
  const std::int64_t at = row * o.entries;
  const auto weight = [&](int e) { return host::value_at(o.weight, at + e); };
  const auto bank_row = [&](int e) { return static_cast<const T*>(p.bank.data) + host::index_at(o.index, at + e) * d; };
  host::sum_parts<T>(valid ? o.entries : 0, p.groups, d, weight, bank_row, scratch, o.out + row * d);
}

/// Copies the pre-write rows of a token: every entry's, or the row of each group whose FIRST entry is this token's.
template <typename T>
void stash_token(const Params& p, std::int64_t row) {
  const int d = p.dims.head_dim, w = p.dims.writes, n = p.dims.write_positions();
  for (std::int64_t e = row * w; e < (row + 1) * w; ++e) {
    const std::int64_t stash_row = p.stash.format == SnapshotFormat::per_entry ? e : host::group_row(p.place, n, e);
    if (stash_row < 0) continue;
    std::memcpy(static_cast<T*>(p.stash.rows) + stash_row * d,
                static_cast<const T*>(p.bank.data) + host::index_at(p.k_idx, e) * d,
                sizeof(T) * static_cast<std::size_t>(d));
  }
}

}  // namespace

std::int32_t groups_for(const Dims& dims, DType bank) {
  const std::int64_t owners = 2 * std::int64_t{dims.chunk};
  const int entries = std::min(dims.writes, dims.reads);
  if (cut_row(dims.head_dim, bank).slices > 1 && rows_return(dims, dims.writes + dims.reads))
    return host::sum_groups(owners, kNarrowLanes, entries, host::kSliceThreads);
  return host::sum_groups(owners, host::row_vectors(dims.head_dim, bank), entries);
}

void replay(const Params& p, Parallel& threads) {
  const std::int64_t tokens = std::int64_t{p.dims.step_streams()} * p.dims.chunk;
  const std::int64_t first_row = std::int64_t{p.step} * p.dims.streams * p.dims.chunk;
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    threads.for_ranges(tokens, 8, [&](std::int64_t begin, std::int64_t end) {
      std::vector<float> scratch(2 * static_cast<std::size_t>(p.dims.head_dim));
      for (std::int64_t row = first_row + begin; row < first_row + end; ++row) {
        const bool valid = row % p.dims.chunk < p.dims.valid_tokens(p.step);
        sum_token<T>(p, {p.k_idx, p.k_weight, p.dims.writes, p.retrieved}, row, valid, scratch.data());
        if (p.inter) sum_token<T>(p, {p.q_idx, p.q_weight, p.dims.reads, p.inter}, row, valid, scratch.data());
        if (p.stash.format != SnapshotFormat::none && valid) stash_token<T>(p, row);
      }
    });
  });
}

}  // namespace sdm::gather
