#pragma once
// A lane's work in the walk of undo (kernels/common/row_walk.cuh). Device code only.
#include "kernels/undo/snapshot_quads.cuh"
#include "kernels/undo/undo.h"

namespace sdm::undo {

using namespace device;

/// A lane's side of the walk: the open group and where its rows come from and go to. kPieces: gradient and snapshot
/// rows are of bf16 and come in pieces of 16 bytes, of which slices are made.
template <typename G, typename B, RowCode kCode, bool kVector, bool kPieces = false>
class UndoLanes {
 public:
  using Code = SnapshotQuad<kCode, B>;
  using SnapBits = typename Code::Bits;
  static constexpr int kGradBytes = sizeof(Quad<G>);
  static constexpr int kSnapBytes = sizeof(SnapBits);
  static constexpr int kSlotBytes = kUndoSlotBytes<G, kCode, B>;
  /// A unit's cells are read before the first is used, where the registers of 16 warps allow it (f32 rows would spill).
  static constexpr bool kReadAhead = sizeof(G) == 2;
  static constexpr bool kSharedCells = kPieces;

  __device__ UndoLanes(const Params& p, const WalkPlace& place, const ColumnSlice& slice, int ordinal,
                       const TokenRows<kVector>& tokens, const WalkMemory& memory, int units)
      : tokens_(tokens),
        lane_(place.lane),
        columns_(tokens.columns),
        writes_(p.dims.writes),
        per_entry_(p.snapshot.format == SnapshotFormat::per_entry),
        apply_factor_(slice_count(p.dims.head_dim) == 1),
        issue_ordinal_(ordinal),
        consume_ordinal_(ordinal),
        ring_(memory.ring),
        beta_(memory.beta) {
    const int column = slice.begin + 4 * place.lane;
    const std::int64_t positions = p.dims.write_positions();
    grad_ = static_cast<G*>(p.grad.data) + column;
    copied_ = p.reads_copy;
    const auto* const copies = static_cast<const G*>(p.gradient_rows) + place.chunk * positions * p.dims.head_dim;
    source_ = copied_ ? copies + column : grad_;
    bank_ = static_cast<B*>(p.bank.data) + column;
    grad_row_bytes_ = static_cast<std::uint32_t>(p.dims.head_dim) * sizeof(G);
    bank_row_bytes_ = static_cast<std::uint32_t>(p.dims.head_dim) * sizeof(B);
    const std::int64_t row_bytes =
        snapshot_row_bytes(p.snapshot.format, p.dims.head_dim, sizeof(B) == 2 ? DType::bf16 : DType::f32);
    snapshot_row_bytes_ = static_cast<std::uint32_t>(row_bytes);
    snapshot_ = static_cast<const std::uint8_t*>(p.snapshot.rows) + place.chunk * positions * row_bytes +
                (kCode == RowCode::int4 ? column / 2 : column * Code::kElement);
    scale_ = p.snapshot.scale + (Code::kScaled ? place.chunk * positions : 0);
    if constexpr (kPieces) {
      const auto bytes = static_cast<std::uint32_t>(slice.width()) * 2u;
      pieces_ = {{source_ - 4 * place.lane, grad_row_bytes_, bytes, 0},
                 {snapshot_ - 8 * place.lane, snapshot_row_bytes_, bytes, kGradBytes * kLanes},
                 place.lane};
    }
    const std::int64_t plane = (place.slice * p.dims.chunks() + place.chunk) * positions;
    plane_ = ((lane_ & 1) == 0 ? p.d_kw_planes : p.d_decay_planes) + plane;
    if (4 * kLanes > slice.width()) clear_ring(ring_, units * kWalkUnit, kSlotBytes, lane_);
  }

  __device__ void issue(std::uint32_t payload, int bank_row, int slot) {
    const int row = per_entry_ ? token_of(payload) * writes_ + entry_of(payload) : issue_ordinal_;
    const int source_row = copied_ ? issue_ordinal_ : bank_row;
    ++issue_ordinal_;
    if constexpr (kPieces) return pieces_.copy(ring_ + slot * (kSlotBytes * kLanes), source_row, row);
    if (kVector && columns_ == 0) return;
    fill_cell<kVector, kGradBytes, sizeof(G)>(
        cell<kGradBytes>(slot, 0), reinterpret_cast<const std::uint8_t*>(row_at(source_, source_row, grad_row_bytes_)),
        columns_ * static_cast<int>(sizeof(G)));
    issue_snapshot(cell<kSnapBytes>(slot, kGradBytes), row_at(snapshot_, row, snapshot_row_bytes_));
    if constexpr (Code::kScaled)
      copy_async<4>(cell<4>(slot, kGradBytes + kSnapBytes), scale_ + row);  // to each lane: no lane waits for another
  }

  /// `records`: the unit's. Units of whole groups of one, the common case, need no open group.
  __device__ void consume(const uint4* records, int slot) {
    Record record[kWalkUnit];
    float x[kWalkUnit][4];
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) record[i] = record_of(records[i]);
    tokens_.load(record, x);
    std::uint32_t all = kFirst | kLast;
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) all &= record[i].payload;
    float dots[2 * kWalkUnit];
    if (all == (kFirst | kLast))
      fold_unit<true>(record, x, slot, dots);
    else
      fold_unit<false>(record, x, slot, dots);
    const float sum = transposed_sum<2 * kWalkUnit, Tree::near_first>(dots, lane_);
    if (lane_ < 2 * kWalkUnit) store_dot(records, sum);
  }

 private:
  /// What the ring holds of one group for this lane.
  struct Cells {
    Quad<G> grad;
    SnapBits snap;
    float scale;
  };
  /// Ring layout: per slot all lanes' gradient quads, then all snapshot quads, then the scales.
  template <int kBytes>
  __device__ std::uint8_t* cell(int slot, int section) const {
    return ring_ + (slot * (kSlotBytes * kLanes) + section * kLanes + lane_ * kBytes);
  }
  __device__ Cells read_cells(int slot) const {
    Cells cells{*reinterpret_cast<const Quad<G>*>(cell<kGradBytes>(slot, 0)),
                *reinterpret_cast<const SnapBits*>(cell<kSnapBytes>(slot, kGradBytes)), 0.0f};
    if constexpr (Code::kScaled) cells.scale = *reinterpret_cast<const float*>(cell<4>(slot, kGradBytes + kSnapBytes));
    return cells;
  }

  __device__ void issue_snapshot(std::uint8_t* target, const std::uint8_t* from) const {
    if constexpr (kCode != RowCode::int4) {
      fill_cell<kVector, kSnapBytes, Code::kElement>(target, from, columns_ * Code::kElement);
    } else if constexpr (kVector) {
      // Four columns are two bytes, and a copy is four, aligned: the word that holds them, cut short where the upper
      // half is not ours to read. open_group() picks the half.
      const auto odd = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) & 2u);
      copy_async_part(target, from - odd, 2 + odd);
    } else {
      fill_cell<false, kSnapBytes, 1>(target, from, (columns_ + 1) / 2);
    }
  }

  /// Per position: fold the token row into its group, the lane's partials of both dots, and the finished rows.
  template <bool kSingles>
  __device__ __forceinline__ void fold_unit(const Record (&record)[kWalkUnit], const float (&x)[kWalkUnit][4], int slot,
                                            float (&dots)[2 * kWalkUnit]) {
    Cells cells[kWalkUnit];
    if constexpr (kReadAhead)
#pragma unroll
      for (int i = 0; i < kWalkUnit; ++i) cells[i] = read_cells(slot + i);  // of no FIRST: old bits, unused
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) {
      if (kSingles || (record[i].payload & kFirst) != 0u) {
        if constexpr (!kReadAhead) cells[i] = read_cells(slot + i);
        open_group(cells[i]);
      }
#pragma unroll
      for (int j = 0; j < 4; ++j) acc_[j] = fma_rn(record[i].scale, x[i][j], acc_[j]);
      dots[i] = quad_dot(x[i], snap_);
      dots[kWalkUnit + i] = quad_dot(gdw_, snap_);
      if (kSingles || (record[i].payload & kLast) != 0u) close_group(record[i]);
    }
  }

  __device__ void open_group(const Cells& cells) {
    SnapBits snap = cells.snap;
    if constexpr (kCode == RowCode::int4 && kVector) {
      const auto address = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(snapshot_)) +
                           static_cast<std::uint32_t>(consume_ordinal_) * snapshot_row_bytes_;
      snap >>= (address & 2u) * 8;
    }
    ++consume_ordinal_;
    widen_quad(cells.grad, gdw_);
    bank_bits_ = Code::decode(snap, cells.scale, snap_);
#pragma unroll
    for (float& x : acc_) x = 0.0f;
  }

  __device__ void close_group(const Record& record) const {
    float updated[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) updated[j] = fma_rn(gdw_[j], record.c, acc_[j]);
    Quad<G> bits;
    narrow_quad(updated, bits);
    store_quad<kVector>(row_at(grad_, record.slot, grad_row_bytes_), bits, columns_);
    store_quad<kVector>(row_at(bank_, record.slot, bank_row_bytes_), bank_bits_, columns_);
  }

  /// Lanes 0 .. 7: even lanes hold the d_kw of one position of the unit, odd lanes the d_decay.
  __device__ void store_dot(const uint4* records, float sum) const {
    const int i = summed_value<2 * kWalkUnit, Tree::near_first>(lane_) & (kWalkUnit - 1);
    const Record record = record_of(records[i]);
    if (record.payload == kNotOurs) return;
    const int token = token_of(record.payload);
    const float factor = (lane_ & 1) == 0 ? -beta_[token] : record.c;
    plane_[token * writes_ + entry_of(record.payload)] = apply_factor_ ? factor * sum : sum;
  }

  TokenRows<kVector> tokens_;
  int lane_, columns_, writes_;
  bool per_entry_, apply_factor_, copied_;
  int issue_ordinal_, consume_ordinal_;
  std::uint8_t* ring_;
  const float* beta_;
  G* grad_;
  const G* source_;  ///< of gradient rows: the bank, or gather_grad's copy
  B* bank_;
  const std::uint8_t* snapshot_;
  const float* scale_;
  float* plane_;
  std::uint32_t grad_row_bytes_, bank_row_bytes_, snapshot_row_bytes_;
  float gdw_[4] = {}, snap_[4] = {}, acc_[4] = {};
  Quad<B> bank_bits_ = {};
  RowPieces pieces_;
};

}  // namespace sdm::undo
