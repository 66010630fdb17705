#include "kernels/common/lane_dot.h"
#include "kernels/common/snapshot_codec.h"
#include "kernels/undo/undo.h"

namespace sdm::undo {
namespace {

float slice_dot(const float* x, const float* y, ColumnSlice slice) {
  float partial[kLanes];
  host::lane_partials(x + slice.begin, y + slice.begin, slice.width(), partial);
  return tree_sum_near_first(partial);
}

template <typename G, typename B>
struct GroupUndo {
  const Params& p;
  std::vector<float> acc = std::vector<float>(static_cast<std::size_t>(p.dims.head_dim));
  std::vector<float> gdw = acc, snap = acc;

  void operator()(std::int64_t chunk, int begin, int end, int ordinal) {
    const int d = p.dims.head_dim, n = p.dims.write_positions();
    const Record* record = p.record + chunk * n;
    const std::int64_t row = std::int64_t{record[begin].slot} * d;
    const std::uint32_t first = record[begin].payload;
    const bool per_entry = p.snapshot.format == SnapshotFormat::per_entry;
    const std::int64_t snapshot_row =
        chunk * n + (per_entry ? token_of(first) * p.dims.writes + entry_of(first) : ordinal);
    B* bank = static_cast<B*>(p.bank.data) + row;
    G* grad = static_cast<G*>(p.grad.data) + row;
    host::decode_row(p.snapshot, snapshot_row, d, bank);
    host::widen_row(bank, d, snap.data());
    const auto* copies = static_cast<const G*>(p.gradient_rows);
    host::widen_row(p.reads_copy ? copies + (chunk * n + ordinal) * d : grad, d, gdw.data());
    const float* token_rows = p.d_dva + chunk * p.dims.chunk * d;
    host::fold_members(record, begin, end, token_rows, d, acc.data());
    const float c = record[end - 1].c;
    for (std::size_t j = 0; j < acc.size(); ++j) grad[j] = store_element<G>(fma_rn(gdw[j], c, acc[j]));
    dots(chunk, record, begin, end, token_rows);
  }

  void dots(std::int64_t chunk, const Record* record, int begin, int end, const float* token_rows) const {
    const int planes = slice_count(p.dims.head_dim);
    const std::int64_t plane_size = p.dims.chunks() * p.dims.write_positions();
    for (int plane = 0; plane < planes; ++plane) {
      const ColumnSlice slice = undo_slice(p.dims.head_dim, plane);
      const float decay = slice_dot(gdw.data(), snap.data(), slice);
      for (int i = begin; i < end; ++i) {
        const int token = token_of(record[i].payload);
        const float kw = slice_dot(token_rows + std::int64_t{token} * p.dims.head_dim, snap.data(), slice);
        const std::int64_t e = chunk * p.dims.write_positions() + token * p.dims.writes + entry_of(record[i].payload);
        const float beta = p.beta[chunk * p.dims.chunk + token];
        p.d_kw_planes[plane * plane_size + e] = canonical(planes == 1 ? (-beta) * kw : kw);
        p.d_decay_planes[plane * plane_size + e] = canonical(planes == 1 ? record[i].c * decay : decay);
      }
    }
  }
};

void clear_padding(const Params& p) {
  const std::int64_t plane_size = p.dims.chunks() * p.dims.write_positions();
  const std::int64_t valid = std::int64_t{p.dims.valid_tokens(p.step)} * p.dims.writes;
  for (int plane = 0; plane < slice_count(p.dims.head_dim); ++plane)
    for (int stream = 0; stream < p.dims.step_streams(); ++stream)
      for (float* planes : {p.d_kw_planes, p.d_decay_planes}) {
        float* chunk =
            planes + plane * plane_size + (std::int64_t{p.step} * p.dims.streams + stream) * p.dims.write_positions();
        std::fill(chunk + valid, chunk + p.dims.write_positions(), 0.0f);
      }
}

}  // namespace

void replay(const Params& p, Parallel& threads) {
  clear_padding(p);
  dispatch_real(p.grad.dtype, [&]<typename G>() {
    dispatch_real(p.bank.dtype, [&]<typename B>() {
      host::for_groups(threads, p.dims, p.step, p.dims.writes, p.record, p.window, [&] { return GroupUndo<G, B>{p}; });
    });
  });
}

}  // namespace sdm::undo
