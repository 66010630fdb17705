#pragma once
// A lane's work in the walk of undo by pairs of slices (kernels/common/slice_pairs.cuh). Device code only.
#include "kernels/common/slice_pairs.cuh"
#include "kernels/undo/lanes.cuh"

namespace sdm::undo {

/// UndoLanes for rows of bf16 with snapshots as they are.
class UndoPairs {
 public:
  static constexpr int kSlices = 2;
  static constexpr bool kAsks = false;  // twice the bytes are in flight as it is: no gain
  static constexpr int kSlotBytes = PairRing::kSlot / kLanes;
  static constexpr bool kSharedCells = false;

  __device__ UndoPairs(const Params& p, const WalkPlace& place, const ColumnSlice& first, int ordinal,
                       const float* /*tokens*/, const WalkMemory& memory, const WalkShape& shape)
      : at_(place.lane, first.width()),
        tokens_(at_, place.lane, place, memory, shape),
        ring_(memory.ring, static_cast<const bf16_t*>(p.grad.data) + first.begin, at_, shape.units * kWalkUnit),
        lane_(place.lane),
        rows_(p, ordinal),
        target_(p, place, kSlices * place.slice + at_.half, memory.beta),
        row_bytes_(static_cast<std::uint32_t>(p.dims.head_dim) * 2u) {
    const int column = first.begin + at_.column;
    const std::int64_t rows = place.chunk * p.dims.write_positions() * p.dims.head_dim + column;
    grad_ = static_cast<bf16_t*>(p.grad.data) + column;
    bank_ = static_cast<bf16_t*>(p.bank.data) + column;
    source_ = p.reads_copy ? static_cast<const bf16_t*>(p.gradient_rows) + rows : grad_;
    snapshot_ = static_cast<const bf16_t*>(p.snapshot.rows) + rows;
    keep(grad_), keep(source_), keep(bank_), keep(snapshot_);
  }

  __device__ __forceinline__ void issue(const uint2 (&heads)[kWalkUnit], int slot) {
    const UnitRows rows = rows_.next(heads);
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) {
      const bool on = (heads[i].x & kFirst) != 0u && at_.inside;
      copy_async_on<16>(on, ring_.cell(slot + i, 0), row_at(source_, rows.gradient[i], row_bytes_));
      copy_async_on<16>(on, ring_.cell(slot + i, 1), row_at(snapshot_, rows.snapshot[i], row_bytes_));
    }
  }

  __device__ void consume(const uint4* records, int slot) {
    Record record[kWalkUnit];
    std::uint32_t all = kFirst | kLast;
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) {
      record[i] = record_of(records[i]);
      all &= record[i].payload;
    }
    const DotTarget::Dot mine = target_.of(records);
    float dots[2 * kWalkUnit];
    if (all == (kFirst | kLast))
      fold_unit<true>(record, slot, dots);
    else
      fold_unit<false>(record, slot, dots);
    const float sum = transposed_sum<2 * kWalkUnit, Tree::near_first, 4>(dots, lane_);
    if (lane_ % 16 < 2 * kWalkUnit) target_.store(mine, sum);
  }

 private:
  /// UndoLanes::fold_unit. Cells are read one after the other: all at once, undo at wide960 took 2,781 us in place of
  /// 2,638.
  template <bool kSingles>
  __device__ __forceinline__ void fold_unit(const Record (&record)[kWalkUnit], int slot, float (&dots)[2 * kWalkUnit]) {
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) {
      PairColumns x;
      tokens_.load(token_of(record[i].payload), x);
      if (kSingles || (record[i].payload & kFirst) != 0u) open_group(slot + i);
      for_columns([&](int q, int j) { acc_[q][j] = fma_rn(record[i].scale, x[q][j], acc_[q][j]); });
      dots[i] = pair_dot(x, snap_);
      dots[kWalkUnit + i] = pair_dot(gdw_, snap_);
      if ((kSingles || (record[i].payload & kLast) != 0u) && at_.inside) close_group(record[i]);
    }
  }
  __device__ __forceinline__ void open_group(int slot) {
    widen_pair(ring_.read(slot, 0), gdw_);
    bank_bits_ = ring_.read(slot, 1);
    widen_pair(bank_bits_, snap_);
    for_columns([&](int q, int j) { acc_[q][j] = 0.0f; });
  }
  __device__ __forceinline__ void close_group(const Record& record) const {
    PairColumns updated;
    for_columns([&](int q, int j) { updated[q][j] = fma_rn(gdw_[q][j], record.c, acc_[q][j]); });
    store_vec(row_at(grad_, record.slot, row_bytes_), narrow_pair(updated));
    store_vec(row_at(bank_, record.slot, row_bytes_), bank_bits_);
  }

  PairPlace at_;
  PairTokens tokens_;
  PairRing ring_;
  int lane_;
  SourceRows rows_;
  DotTarget target_;
  std::uint32_t row_bytes_;
  bf16_t *grad_, *bank_;
  const bf16_t *source_, *snapshot_;
  PairColumns gdw_ = {}, snap_ = {}, acc_ = {};
  uint4 bank_bits_ = {};
};

}  // namespace sdm::undo
