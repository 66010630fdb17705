// After the backward every bank row is its initial row: to the bit, or, for a lossy snapshot, the initial row or its
// round trip through the snapshot's format.
#include <fmt/format.h>

#include <cstring>

#include "check/bitwise.h"
#include "check/check.h"
#include "kernels/common/snapshot_codec.h"

namespace sdm::check {
namespace {

/// One row through the format and back, in the bank's element T.
template <typename T>
void round_trip(SnapshotFormat format, const T* row, int columns, T* out) {
  std::vector<std::uint8_t> stored(sizeof(T) * static_cast<std::size_t>(columns) + 1);
  float scale = 0;
  const Snapshot snapshot{format, stored.data(), &scale};
  std::vector<float> wide(static_cast<std::size_t>(columns));
  host::widen_row(row, columns, wide.data());
  host::encode_row(snapshot, 0, row, wide.data(), columns);
  host::decode_row(snapshot, 0, columns, out);
}

template <typename T>
std::string first_wrong_row(const CheckContext& context, std::int64_t first_row, std::int64_t rows, const T* initial,
                            const T* now) {
  const int d = context.workload.head_dim;
  const auto row_bytes = sizeof(T) * static_cast<std::size_t>(d);
  std::vector<T> expected(static_cast<std::size_t>(d));
  for (std::int64_t row = 0; row < rows; ++row) {
    if (std::memcmp(initial + row * d, now + row * d, row_bytes) == 0) continue;
    round_trip(context.workload.snapshot, initial + row * d, d, expected.data());
    const std::int64_t shape[] = {d};
    const auto difference = compare_bits(context.workload.bank_dtype, shape, expected.data(), now + row * d);
    if (difference) return fmt::format("row {} is not restored: {}", first_row + row, difference->sentence());
  }
  return {};
}

}  // namespace

CheckResult bank_restored(const CheckSpec&, CheckContext& context) {
  if (!context.session.has_backward())
    return skipped("snapshot none: there is no backward that could restore the bank");
  context.session.restore();
  context.session.run_training_step();
  const Tensor& bank = context.session.buffers().bank;
  const int d = context.workload.head_dim;
  const auto row_bytes = static_cast<std::int64_t>(size_of(bank.dtype)) * d;
  const std::int64_t piece =
      std::min(context.workload.rows(), std::max<std::int64_t>(1, (std::int64_t{64} << 20) / row_bytes));
  std::vector<std::byte> initial(static_cast<std::size_t>(piece * row_bytes)), now(initial.size());
  for (std::int64_t first = 0; first < context.workload.rows(); first += piece) {
    const std::int64_t rows = std::min(piece, context.workload.rows() - first);
    context.session.initial_bank(BankKind::memory, first * d, rows * d, initial.data());
    context.backend.download(now.data(), bank.as<std::byte>() + first * row_bytes,
                             static_cast<std::size_t>(rows * row_bytes));
    std::string wrong;
    dispatch_real(bank.dtype, [&]<typename T>() {
      wrong = first_wrong_row(context, first, rows, reinterpret_cast<const T*>(initial.data()),
                              reinterpret_cast<const T*>(now.data()));
    });
    if (!wrong.empty()) return failed(wrong);
  }
  const bool lossless =
      context.workload.snapshot == SnapshotFormat::raw || context.workload.snapshot == SnapshotFormat::per_entry;
  return passed(lossless ? "the bank equals its initial bytes after the backward"
                         : fmt::format("every bank row is its initial row or that row through {}",
                                       name_of(context.workload.snapshot)));
}

}  // namespace sdm::check
