#include "kernels/common/snapshot_codec.h"
#include "kernels/write/write.h"

namespace sdm::write {
namespace {

template <typename T>
struct GroupWriter {
  const Params& p;
  std::vector<float> acc = std::vector<float>(static_cast<std::size_t>(p.dims.head_dim));
  std::vector<float> base = std::vector<float>(static_cast<std::size_t>(p.dims.head_dim));

  void operator()(std::int64_t chunk, int begin, int end, int ordinal) {
    const int d = p.dims.head_dim, n = p.dims.write_positions();
    const Record* record = p.record + chunk * n;
    T* row = static_cast<T*>(p.bank.data) + std::int64_t{record[begin].slot} * d;
    host::widen_row(row, d, base.data());
    if (p.snapshot.format != SnapshotFormat::none)
      host::encode_row(p.snapshot, chunk * n + ordinal, row, base.data(), d);
    host::fold_members(record, begin, end, p.delta_v + chunk * p.dims.chunk * d, d, acc.data());
    const float c = record[end - 1].c;
    for (int j = 0; j < d; ++j)
      row[j] = store_element<T>(fma_rn(base[static_cast<std::size_t>(j)], c, acc[static_cast<std::size_t>(j)]));
  }
};

}  // namespace

void replay(const Params& p, Parallel& threads) {
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    host::for_groups(threads, p.dims, p.step, p.dims.writes, p.record, p.window, [&] { return GroupWriter<T>{p}; });
  });
}

}  // namespace sdm::write
