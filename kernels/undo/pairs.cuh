#pragma once
// A lane's work in the walk of undo by pairs of slices (kernels/common/slice_pairs.cuh). Device code only.
#include "kernels/common/slice_pairs.cuh"
#include "kernels/undo/lanes.cuh"

namespace sdm::undo {

/// A lane's eight columns of a snapshot row: two quads of snapshot_quads.cuh side by side.
template <RowCode kCode>
struct SnapshotPair {
  using Quad = SnapshotQuad<kCode, bf16_t>;
  static constexpr int kBytes = kCode == RowCode::int4 ? 4 : 2 * static_cast<int>(sizeof(typename Quad::Bits));
  using Bits = typename PairRing<kBytes>::Second;
  __device__ static typename Quad::Bits half(const Bits& bits, int q) {
    if constexpr (kCode == RowCode::int4)
      return bits >> (16 * q);
    else if constexpr (kCode == RowCode::fp8)
      return q == 0 ? bits.x : bits.y;
    else
      return q == 0 ? uint2{bits.x, bits.y} : uint2{bits.z, bits.w};
  }
  __device__ static uint4 decode(const Bits& bits, float scale, PairColumns& out) {
    const uint2 low = Quad::decode(half(bits, 0), scale, out[0]), high = Quad::decode(half(bits, 1), scale, out[1]);
    return {low.x, low.y, high.x, high.y};
  }
};

/// UndoLanes for rows of bf16.
template <RowCode kCode>
class UndoPairs {
  using Code = SnapshotPair<kCode>;
  using Ring = PairRing<Code::kBytes>;
  static constexpr bool kScaled = Code::Quad::kScaled;

 public:
  static constexpr int kSlices = 2;
  static constexpr bool kAsks = false;  // twice the bytes are in flight as it is: no gain
  static constexpr int kSlotBytes = Ring::kSlot / kLanes;
  static constexpr bool kSharedCells = false;
  static constexpr bool kByRow = true, kReadAhead = true;

  __device__ UndoPairs(const Params& p, const WalkPlace& place, const ColumnSlice& first, int ordinal,
                       const float* /*tokens*/, const WalkMemory& memory, const WalkShape& shape)
      : at_(place.lane, first.width()),
        tokens_(at_, place.lane, place, memory, shape),
        ring_(memory.ring, static_cast<const bf16_t*>(p.grad.data) + first.begin, at_, place.lane,
              shape.units * kWalkUnit),
        lane_(place.lane),
        rows_(p, ordinal),
        target_(p, place, kSlices * place.slice + at_.half, memory.beta),
        row_bytes_(static_cast<std::uint32_t>(p.dims.head_dim) * 2u),
        snapshot_row_bytes_(row_bytes_ * Code::kBytes / 16u) {
    const int column = first.begin + at_.column;
    const std::int64_t positions = place.chunk * p.dims.write_positions(), rows = positions * p.dims.head_dim + column;
    grad_ = static_cast<bf16_t*>(p.grad.data) + column;
    bank_ = static_cast<bf16_t*>(p.bank.data) + column;
    source_ = p.reads_copy ? static_cast<const bf16_t*>(p.gradient_rows) + rows : grad_;
    snapshot_ = static_cast<const std::uint8_t*>(p.snapshot.rows) + Code::kBytes * rows / 8;
    scale_ = p.snapshot.scale + (kScaled ? positions : 0);
    keep(grad_), keep(source_), keep(bank_), keep(snapshot_);
  }

  __device__ __forceinline__ void issue(const uint2 (&heads)[kWalkUnit], int slot) {
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) issue_row(heads[i], slot + i);
  }

  template <typename Wait>
  __device__ __forceinline__ void consume(const uint4* records, int slot, Wait&& wait, const UnitAhead& ahead) {
    Record record[kWalkUnit];
    std::uint32_t all = kFirst | kLast;
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) {
      record[i] = record_of(records[i]);
      all &= record[i].payload;
    }
    const DotTarget::Dot mine = target_.of(records);
    wait();
    const uint4* next = ahead.records();
    float dots[2 * kWalkUnit];
    if (all == (kFirst | kLast))
      fold_unit<true>(record, slot, next, dots);
    else
      fold_unit<false>(record, slot, next, dots);
    ahead.done();
    const float sum = transposed_sum<2 * kWalkUnit, Tree::near_first, 4>(dots, lane_);
    if (lane_ % 16 < 2 * kWalkUnit) target_.store(mine, sum);
  }

 private:
  __device__ __forceinline__ void issue_row(const uint2& head, int slot) {
    const bool on = (head.x & kFirst) != 0u && at_.inside;
    const SourceRows::Row row = rows_.next(head);
    copy_async_on<16>(on, ring_.first_cell(slot), row_at(source_, row.gradient, row_bytes_));
    copy_async_on<Code::kBytes>(on, ring_.second_cell(slot), row_at(snapshot_, row.snapshot, snapshot_row_bytes_));
    if constexpr (kScaled) copy_async_on<4>(on, ring_.scale_cell(slot), scale_ + row.snapshot);
  }
  /// UndoLanes::fold_unit. Cells are read one after the other (all at once, undo at wide960 took 2,781 us in place of
  /// 2,638), and the row that comes in their place is asked for at once: 2,652 to 2,606. `next`: the records of those
  /// rows, or null.
  template <bool kSingles>
  __device__ __forceinline__ void fold_unit(const Record (&record)[kWalkUnit], int slot, const uint4* next,
                                            float (&dots)[2 * kWalkUnit]) {
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) {
      PairColumns x;
      tokens_.load(token_of(record[i].payload), x);
      if (kSingles || (record[i].payload & kFirst) != 0u) open_group(slot + i);
      issue_row(next ? head_of(next[i]) : uint2{0, 0}, slot + i);
      for_columns([&](int q, int j) { acc_[q][j] = fma_rn(record[i].scale, x[q][j], acc_[q][j]); });
      dots[i] = pair_dot(x, snap_);
      dots[kWalkUnit + i] = pair_dot(gdw_, snap_);
      if ((kSingles || (record[i].payload & kLast) != 0u) && at_.inside) close_group(record[i]);
    }
  }
  __device__ __forceinline__ void open_group(int slot) {
    widen_pair(ring_.first(slot), gdw_);
    bank_bits_ = Code::decode(ring_.second(slot), kScaled ? ring_.scale(slot) : 0.0f, snap_);
    for_columns([&](int q, int j) { acc_[q][j] = 0.0f; });
  }
  __device__ __forceinline__ void close_group(const Record& record) const {
    PairColumns updated;
    for_columns([&](int q, int j) { updated[q][j] = fma_rn(gdw_[q][j], record.c, acc_[q][j]); });
    store_global(row_at(grad_, record.slot, row_bytes_), narrow_pair(updated));
    store_global(row_at(bank_, record.slot, row_bytes_), bank_bits_);
  }

  PairPlace at_;
  PairTokens tokens_;
  Ring ring_;
  int lane_;
  SourceRows rows_;
  DotTarget target_;
  std::uint32_t row_bytes_, snapshot_row_bytes_;
  bf16_t *grad_, *bank_;
  const bf16_t* source_;
  const std::uint8_t* snapshot_;
  const float* scale_;
  PairColumns gdw_ = {}, snap_ = {}, acc_ = {};
  uint4 bank_bits_ = {};
};

}  // namespace sdm::undo
