#include "kernels/common/lane_dot.h"
#include "kernels/read_grad/read_grad.h"

namespace sdm::read_grad {
namespace {

template <typename G, typename B>
struct GroupReadGrad {
  const Params& p;
  std::vector<float> acc = std::vector<float>(static_cast<std::size_t>(p.dims.head_dim));
  std::vector<float> bank_row = acc;

  void operator()(std::int64_t chunk, int begin, int end, int /*ordinal*/) {
    const int d = p.dims.head_dim;
    const Record* record = p.record + chunk * p.dims.read_positions();
    const std::int64_t row = std::int64_t{record[begin].slot} * d;
    G* grad = static_cast<G*>(p.grad.data) + row;
    const float* token_rows = p.d_reading + chunk * p.dims.chunk * d;
    host::widen_row(static_cast<const B*>(p.bank.data) + row, d, bank_row.data());
    host::fold_members(record, begin, end, token_rows, d, acc.data());
    for (std::size_t j = 0; j < acc.size(); ++j) grad[j] = store_element<G>(load_element(grad[j]) + acc[j]);
    for (int i = begin; i < end; ++i) dots(chunk, record[i].payload, token_rows);
  }

  void dots(std::int64_t chunk, std::uint32_t payload, const float* token_rows) const {
    const std::int64_t plane_size = p.dims.chunks() * p.dims.read_positions();
    const std::int64_t e = chunk * p.dims.read_positions() + token_of(payload) * p.dims.reads + entry_of(payload);
    const float* x = token_rows + std::int64_t{token_of(payload)} * p.dims.head_dim;
    for (int plane = 0; plane < slice_count(p.dims.head_dim); ++plane) {
      const ColumnSlice slice = row_slice(p.dims.head_dim, plane);
      float partial[kLanes];
      host::lane_partials(x + slice.begin, bank_row.data() + slice.begin, slice.width(), partial);
      p.d_qw_planes[plane * plane_size + e] = canonical(tree_sum_far_first(partial));
    }
  }
};

void clear_padding(const Params& p) {
  const std::int64_t plane_size = p.dims.chunks() * p.dims.read_positions();
  const std::int64_t valid = std::int64_t{p.dims.valid_tokens(p.step)} * p.dims.reads;
  for (int plane = 0; plane < slice_count(p.dims.head_dim); ++plane)
    for (int stream = 0; stream < p.dims.step_streams(); ++stream) {
      float* chunk = p.d_qw_planes + plane * plane_size +
                     (std::int64_t{p.step} * p.dims.streams + stream) * p.dims.read_positions();
      std::fill(chunk + valid, chunk + p.dims.read_positions(), 0.0f);
    }
}

}  // namespace

void replay(const Params& p, Parallel& threads) {
  clear_padding(p);
  dispatch_real(p.grad.dtype, [&]<typename G>() {
    dispatch_real(p.bank.dtype, [&]<typename B>() {
      host::for_groups(threads, p.dims, p.step, p.dims.reads, p.record, p.window,
                       [&] { return GroupReadGrad<G, B>{p}; });
    });
  });
}

}  // namespace sdm::read_grad
