#pragma once
// A lane's work in the walk of undo (kernels/common/row_walk.cuh). Device code only.
#include "kernels/undo/snapshot_quads.cuh"
#include "kernels/undo/undo.h"

namespace sdm::undo {

using namespace device;

/// The rows of a unit's groups: in the snapshot, and in the gradient or its copy.
struct UnitRows {
  int snapshot[kWalkUnit], gradient[kWalkUnit];
};
class SourceRows {
 public:
  struct Row {
    int snapshot, gradient;
  };
  __device__ SourceRows(const Params& p, int ordinal)
      : per_entry_(p.snapshot.format == SnapshotFormat::per_entry),
        copied_(p.reads_copy),
        writes_(p.dims.writes),
        ordinal_(ordinal) {}
  __device__ __forceinline__ UnitRows next(const uint2 (&heads)[kWalkUnit]) {
    UnitRows rows;
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) {
      rows.snapshot[i] = ordinal_;
      rows.gradient[i] = copied_ ? ordinal_ : static_cast<int>(heads[i].y);
      ordinal_ += static_cast<int>(heads[i].x / kFirst);
    }
    if (per_entry_)
#pragma unroll
      for (int i = 0; i < kWalkUnit; ++i) rows.snapshot[i] = token_of(heads[i].x) * writes_ + entry_of(heads[i].x);
    return rows;
  }
  /// The same for one group.
  __device__ __forceinline__ Row next(const uint2& head) {
    const Row row{snapshot_ahead(head, 0), gradient_ahead(head, 0)};
    ordinal_ += static_cast<int>(head.x / kFirst);
    return row;
  }
  /// The rows of one group to come, with `before` others before it.
  __device__ int snapshot_ahead(const uint2& head, int before) const {
    return per_entry_ ? token_of(head.x) * writes_ + entry_of(head.x) : ordinal_ + before;
  }
  __device__ int gradient_ahead(const uint2& head, int before) const {
    return copied_ ? ordinal_ + before : static_cast<int>(head.y);
  }

 private:
  bool per_entry_, copied_;
  int writes_, ordinal_;
};

/// Where a unit's dots go: a lane each, even lanes the d_kw of a position, odd ones its d_decay.
class DotTarget {
 public:
  struct Dot {
    std::uint32_t payload;
    int token;
    float factor;
  };
  __device__ DotTarget(const Params& p, const WalkPlace& place, int slice, const float* beta)
      : plane_(((place.lane & 1) == 0 ? p.d_kw_planes : p.d_decay_planes) +
               (slice * p.dims.chunks() + place.chunk) * p.dims.write_positions()),
        beta_(beta),
        position_(summed_value<2 * kWalkUnit, Tree::near_first>(place.lane) & (kWalkUnit - 1)),
        writes_(p.dims.writes),
        even_((place.lane & 1) == 0),
        apply_factor_(slice_count(p.dims.head_dim) == 1) {}
  /// Before the sums are made, so that nothing waits for it afterwards.
  __device__ __forceinline__ Dot of(const uint4* records) const {
    const Record record = record_of(records[position_]);
    const int token = token_of(record.payload);
    return {record.payload, token, even_ ? -beta_[token] : record.c};
  }
  __device__ __forceinline__ void store(const Dot& dot, float sum) const {
    if (dot.payload != kNotOurs)
      plane_[dot.token * writes_ + entry_of(dot.payload)] = apply_factor_ ? dot.factor * sum : sum;
  }

 private:
  float* plane_;
  const float* beta_;
  int position_, writes_;
  bool even_, apply_factor_;
};

/// A lane's side of the walk: the open group and where its rows come from and go to. kPieces: gradient and snapshot
/// rows are of bf16 and come in pieces of 16 bytes, of which slices are made.
/// kAlone: in a kernel of its own; not in the fused one, where what gains there loses (docs/performance.md).
template <typename G, typename B, RowCode kCode, bool kVector, bool kPieces = false, bool kAlone = true>
class UndoLanes {
 public:
  using Code = SnapshotQuad<kCode, B, kAlone>;
  using SnapBits = typename Code::Bits;
  static constexpr int kGradBytes = sizeof(Quad<G>);
  static constexpr int kSnapBytes = sizeof(SnapBits);
  static constexpr int kSlotBytes = kUndoSlotBytes<G, kCode, B>;
  /// A unit's cells are read before the first is used, where the registers of 16 warps allow it (f32 rows would spill),
  /// and the next rows asked for at once.
  static constexpr bool kCellsFirst = sizeof(G) == 2, kReadAhead = kAlone && kCellsFirst;
  static constexpr bool kSharedCells = kPieces;
  static constexpr bool kByRow = false;
  static constexpr int kSlices = 1;
  static constexpr bool kAsks = kVector && (kCode == RowCode::raw || kCode == RowCode::bf16);

  /// `ordinal`: of the first group. `tokens`: the chunk's token rows.
  __device__ UndoLanes(const Params& p, const WalkPlace& place, const ColumnSlice& slice, int ordinal,
                       const float* tokens, const WalkMemory& memory, const WalkShape& shape)
      : tokens_(tokens, p.dims.head_dim, slice, place, memory, shape),
        lane_(place.lane),
        columns_(tokens_.columns),
        width_(slice.width()),
        rows_(p, ordinal),
        target_(p, place, place.slice, memory.beta),
        consume_ordinal_(ordinal),
        ring_(memory.ring) {
    const int column = slice.begin + 4 * place.lane;
    const std::int64_t positions = p.dims.write_positions();
    grad_ = static_cast<G*>(p.grad.data) + column;
    const auto* const copies = static_cast<const G*>(p.gradient_rows) + place.chunk * positions * p.dims.head_dim;
    source_ = p.reads_copy ? copies + column : grad_;
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
    keep(grad_), keep(source_), keep(bank_), keep(snapshot_);
    if (4 * kLanes > slice.width()) clear_ring(ring_, shape.units * kWalkUnit, kSlotBytes, lane_);
  }

  /// Rows and slices of whole 16-byte vectors only.
  __device__ void ask(const uint2& head, int before) const {
    const auto ask_slice = [&](const void* lane_columns, std::uint32_t row_bytes, int element) {
      const auto bytes = static_cast<std::uint32_t>(width_ * element);
      const auto* begin = static_cast<const std::uint8_t*>(lane_columns) - 4 * lane_ * element;
      if (((row_bytes | bytes) & 15u) == 0u) prefetch_l2(begin, static_cast<std::int32_t>(bytes));
    };
    ask_slice(row_at(source_, rows_.gradient_ahead(head, before), grad_row_bytes_), grad_row_bytes_, sizeof(G));
    ask_slice(row_at(snapshot_, rows_.snapshot_ahead(head, before), snapshot_row_bytes_), snapshot_row_bytes_,
              Code::kElement);
  }
  __device__ __forceinline__ void issue(const uint2 (&heads)[kWalkUnit], int slot) {
    const UnitRows rows = rows_.next(heads);
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i)
      issue_rows((heads[i].x & kFirst) != 0u, rows.gradient[i], rows.snapshot[i], slot + i);
  }

  /// `records`: the unit's. Units of whole groups of one, the common case, need no open group.
  template <typename Wait, typename Next>
  __device__ __forceinline__ void consume(const uint4* records, int slot, Wait&& wait, Next&& issue_next) {
    Record record[kWalkUnit];
    UnitCells cells;
    float x[kWalkUnit][4];
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) record[i] = record_of(records[i]);
    if constexpr (!kReadAhead) tokens_.load(record, x);
    std::uint32_t all = kFirst | kLast;
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) all &= record[i].payload;
    const DotTarget::Dot mine = target_.of(records);
    if constexpr (kReadAhead) {
      wait();
      cells = read_cells(slot);
      issue_next();
      tokens_.load(record, x);
    }
    float dots[2 * kWalkUnit];
    if (all == (kFirst | kLast))
      fold_unit<true>(record, x, slot, cells, dots);
    else
      fold_unit<false>(record, x, slot, cells, dots);
    const float sum = transposed_sum<2 * kWalkUnit, Tree::near_first>(dots, lane_);
    if (lane_ < 2 * kWalkUnit) target_.store(mine, sum);
  }

 private:
  /// What the ring holds of one group for this lane.
  struct Cells {
    Quad<G> grad;
    SnapBits snap;
    float scale;
  };
  struct UnitCells {
    Cells of[kWalkUnit];
  };
  /// Ring layout: per slot all lanes' gradient quads, then all snapshot quads, then the scales.
  template <int kBytes>
  __device__ std::uint8_t* cell(int slot, int section) const {
    return ring_ + (slot * (kSlotBytes * kLanes) + section * kLanes + lane_ * kBytes);
  }
  /// A unit's; of no FIRST: old bits, unused.
  __device__ __forceinline__ UnitCells read_cells(int slot) const {
    UnitCells cells;
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) cells.of[i] = read_cell(slot + i);
    return cells;
  }
  __device__ Cells read_cell(int slot) const {
    Cells cells{*reinterpret_cast<const Quad<G>*>(cell<kGradBytes>(slot, 0)),
                *reinterpret_cast<const SnapBits*>(cell<kSnapBytes>(slot, kGradBytes)), 0.0f};
    if constexpr (Code::kScaled) cells.scale = *reinterpret_cast<const float*>(cell<4>(slot, kGradBytes + kSnapBytes));
    return cells;
  }

  __device__ __forceinline__ void issue_rows(bool on, int source_row, int row, int slot) const {
    if constexpr (kPieces) return pieces_.copy(on, ring_ + slot * (kSlotBytes * kLanes), source_row, row);
    fill_cell<kVector, kGradBytes, sizeof(G)>(
        on, cell<kGradBytes>(slot, 0),
        reinterpret_cast<const std::uint8_t*>(row_at(source_, source_row, grad_row_bytes_)),
        columns_ * static_cast<int>(sizeof(G)));
    issue_snapshot(on, cell<kSnapBytes>(slot, kGradBytes), row_at(snapshot_, row, snapshot_row_bytes_));
    if constexpr (Code::kScaled)  // to each lane: no lane waits for another
      copy_async_on<4>(on, cell<4>(slot, kGradBytes + kSnapBytes), scale_ + row);
  }
  __device__ __forceinline__ void issue_snapshot(bool on, std::uint8_t* target, const std::uint8_t* from) const {
    if constexpr (kCode != RowCode::int4) {
      fill_cell<kVector, kSnapBytes, Code::kElement>(on, target, from, columns_ * Code::kElement);
    } else if constexpr (kVector) {
      // Four columns are two bytes, and a copy is four, aligned: the word that holds them, cut short where the upper
      // half is not ours to read. open_group() picks the half.
      const auto odd = static_cast<int>(reinterpret_cast<std::uintptr_t>(from) & 2u);
      if (on && columns_ > 0) copy_async_part(target, from - odd, 2 + odd);
    } else {
      fill_cell<false, kSnapBytes, 1>(on, target, from, (columns_ + 1) / 2);
    }
  }

  /// Per position: fold the token row into its group, the lane's partials of both dots, and the finished rows.
  template <bool kSingles>
  __device__ __forceinline__ void fold_unit(const Record (&record)[kWalkUnit], const float (&x)[kWalkUnit][4], int slot,
                                            const UnitCells& ahead, float (&dots)[2 * kWalkUnit]) {
    UnitCells cells;
    if constexpr (kCellsFirst) cells = kReadAhead ? ahead : read_cells(slot);
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) {
      if (kSingles || (record[i].payload & kFirst) != 0u) open_group(kCellsFirst ? cells.of[i] : read_cell(slot + i));
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
    store_quad<kVector, kReadAhead>(row_at(grad_, record.slot, grad_row_bytes_), bits, columns_);
    store_quad<kVector, kReadAhead>(row_at(bank_, record.slot, bank_row_bytes_), bank_bits_, columns_);
  }

  TokenRows<kVector> tokens_;
  int lane_, columns_, width_;
  SourceRows rows_;
  DotTarget target_;
  int consume_ordinal_;
  std::uint8_t* ring_;
  G* grad_;
  const G* source_;  ///< of gradient rows: the bank, or gather_grad's copy
  B* bank_;
  const std::uint8_t* snapshot_;
  const float* scale_;
  std::uint32_t grad_row_bytes_, bank_row_bytes_, snapshot_row_bytes_;
  float gdw_[4] = {}, snap_[4] = {}, acc_[4] = {};
  Quad<B> bank_bits_ = {};
  RowPieces pieces_;
};

}  // namespace sdm::undo
