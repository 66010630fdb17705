#pragma once
// The walk of read_grad (kernels/common/row_walk.cuh): per group G[s] += fold(scale, gr[token]), and, with kDots, the
// dot of each member's gr row with the bank row. Device code only.
#include "kernels/common/row_walk.cuh"
#include "kernels/read_grad/read_grad.h"

namespace sdm::read_grad {

/// Ring bytes per position and lane: the gradient's quad, and the bank's where dots are made on the way.
template <typename G, typename B, bool kDots>
inline constexpr int kReadSlotBytes = static_cast<int>(sizeof(device::Quad<G>)) +
                                      (kDots ? static_cast<int>(sizeof(device::Quad<B>)) : 0);

/// kPieces: both rows are of bf16 and come in pieces of 16 bytes, of which slices are made. kAlone: as of UndoLanes.
template <typename G, typename B, bool kVector, bool kDots, bool kPieces = false, bool kAlone = true>
class ReadLanes {
 public:
  using GradBits = device::Quad<G>;
  using BankBits = device::Quad<B>;
  static constexpr int kUnit = kWalkUnit;
  static constexpr bool kSharedCells = kPieces;
  static constexpr bool kByRow = false;
  static constexpr bool kReadAhead = kAlone && sizeof(G) == 2;  ///< as UndoLanes'
  static constexpr int kSlices = 1;
  static constexpr int kSlotBytes = kReadSlotBytes<G, B, kDots>;

  __device__ ReadLanes(const Params& p, const device::WalkPlace& place, const ColumnSlice& slice, const float* tokens,
                       const device::WalkMemory& memory, const WalkShape& shape)
      : tokens_(tokens, p.dims.head_dim, slice, place, memory, shape),
        lane_(place.lane),
        columns_(tokens_.columns),
        reads_(p.dims.reads),
        width_(slice.width()),
        ring_(memory.ring),
        grad_row_bytes_(static_cast<std::uint32_t>(p.dims.head_dim) * sizeof(G)),
        bank_row_bytes_(static_cast<std::uint32_t>(p.dims.head_dim) * sizeof(B)),
        pieces_({static_cast<const G*>(p.grad.data) + slice.begin, grad_row_bytes_, slice_bytes(slice), 0},
                {static_cast<const B*>(p.bank.data) + slice.begin, bank_row_bytes_, slice_bytes(slice),
                 static_cast<int>(sizeof(GradBits)) * kLanes},
                place.lane) {
    const int column = slice.begin + 4 * place.lane;
    grad_ = static_cast<G*>(p.grad.data) + column;
    bank_ = static_cast<const B*>(p.bank.data) + column;
    device::keep(grad_), device::keep(bank_);
    plane_ = p.d_qw_planes + (place.slice * p.dims.chunks() + place.chunk) * p.dims.read_positions();
    if (4 * kLanes > slice.width()) device::clear_ring(ring_, shape.units * kUnit, kSlotBytes, lane_);
  }

  /// Rows and slices of whole 16-byte vectors only: others are not worth the care.
  __device__ void ask(const uint2& head, int /*groups before*/) const {
    const int row = static_cast<int>(head.y);
    ask_slice(device::row_at(grad_, row, grad_row_bytes_), grad_row_bytes_);
    if constexpr (kDots) ask_slice(device::row_at(bank_, row, bank_row_bytes_), bank_row_bytes_);
  }
  __device__ __forceinline__ void issue(const uint2 (&heads)[kUnit], int slot) const {
#pragma unroll
    for (int i = 0; i < kUnit; ++i) issue_rows((heads[i].x & kFirst) != 0u, static_cast<int>(heads[i].y), slot + i);
  }

  /// `records`: the unit's. Units of whole groups of one, the common case, need no open group.
  template <typename Wait, typename Next>
  __device__ __forceinline__ void consume(const uint4* records, int slot, Wait&& wait, Next&& issue_next) {
    Record record[kUnit];
    UnitCells cells;
    float x[kUnit][4];
#pragma unroll
    for (int i = 0; i < kUnit; ++i) record[i] = device::record_of(records[i]);
    tokens_.load(record, x);
    std::uint32_t all = kFirst | kLast;
#pragma unroll
    for (int i = 0; i < kUnit; ++i) all &= record[i].payload;
    const std::uint32_t payload = records[device::summed_value<kUnit, device::Tree::far_first>(lane_)].x;
    if constexpr (kReadAhead) {
      wait();
      cells = read_cells(slot);
      issue_next();
    }
    float dots[kUnit] = {};
    if (all == (kFirst | kLast))
      fold_unit<true>(record, x, slot, cells, dots);
    else
      fold_unit<false>(record, x, slot, cells, dots);
    if constexpr (kDots) {
      const float sum = device::transposed_sum<kUnit, device::Tree::far_first>(dots, lane_);
      if (lane_ % 8 == 0 && payload != device::kNotOurs) plane_[token_of(payload) * reads_ + entry_of(payload)] = sum;
    }
  }

 private:
  /// What the ring holds of one group for this lane.
  struct Cells {
    GradBits grad;
    BankBits bank;
  };
  struct UnitCells {
    Cells of[kUnit];
  };
  __device__ static std::uint32_t slice_bytes(const ColumnSlice& slice) {
    return static_cast<std::uint32_t>(slice.width()) * 2u;
  }
  template <int kBytes>
  __device__ std::uint8_t* cell(int slot, int section) const {
    return ring_ + (slot * (kSlotBytes * kLanes) + section * kLanes + lane_ * kBytes);
  }
  /// Before the first is used; of no FIRST: old bits, unused.
  __device__ __forceinline__ UnitCells read_cells(int slot) const {
    UnitCells cells;
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      cells.of[i].grad = *reinterpret_cast<const GradBits*>(cell<sizeof(GradBits)>(slot + i, 0));
      if constexpr (kDots)
        cells.of[i].bank = *reinterpret_cast<const BankBits*>(cell<sizeof(BankBits)>(slot + i, sizeof(GradBits)));
    }
    return cells;
  }
  template <typename T>
  __device__ void ask_slice(const T* columns, std::uint32_t row_bytes) const {
    const auto bytes = static_cast<std::uint32_t>(width_ * static_cast<int>(sizeof(T)));
    if (((row_bytes | bytes) & 15u) == 0u) device::prefetch_l2(columns - 4 * lane_, static_cast<std::int32_t>(bytes));
  }
  __device__ __forceinline__ void issue_rows(bool on, int row, int slot) const {
    if constexpr (kPieces) return pieces_.copy(on, ring_ + slot * (kSlotBytes * kLanes), row, row);
    fill(on, cell<sizeof(GradBits)>(slot, 0), device::row_at(grad_, row, grad_row_bytes_));
    if constexpr (kDots)
      fill(on, cell<sizeof(BankBits)>(slot, sizeof(GradBits)), device::row_at(bank_, row, bank_row_bytes_));
  }
  template <typename T>
  __device__ __forceinline__ void fill(bool on, std::uint8_t* target, const T* from) const {
    device::fill_cell<kVector, sizeof(device::Quad<std::remove_const_t<T>>), sizeof(T)>(
        on, target, reinterpret_cast<const std::uint8_t*>(from), columns_ * static_cast<int>(sizeof(T)));
  }
  /// Per position: fold the token row into its group, the lane's partial of the dot, and the finished row.
  template <bool kSingles>
  __device__ __forceinline__ void fold_unit(const Record (&record)[kUnit], const float (&x)[kUnit][4], int slot,
                                            const UnitCells& ahead, float (&dots)[kUnit]) {
    const UnitCells cells = kReadAhead ? ahead : read_cells(slot);
#pragma unroll
    for (int i = 0; i < kUnit; ++i) {
      if (kSingles || (record[i].payload & kFirst) != 0u) open_group(cells.of[i]);
#pragma unroll
      for (int j = 0; j < 4; ++j) acc_[j] = fma_rn(record[i].scale, x[i][j], acc_[j]);
      if constexpr (kDots) dots[i] = device::quad_dot(x[i], row_);
      if (kSingles || (record[i].payload & kLast) != 0u) close_group(record[i].slot);
    }
  }
  __device__ void open_group(const Cells& cells) {
    device::widen_quad(cells.grad, old_);
    if constexpr (kDots) device::widen_quad(cells.bank, row_);
#pragma unroll
    for (float& x : acc_) x = 0.0f;
  }
  __device__ void close_group(std::int32_t slot) const {
    float updated[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) updated[j] = old_[j] + acc_[j];
    GradBits bits;
    device::narrow_quad(updated, bits);
    device::store_quad<kVector>(device::row_at(grad_, slot, grad_row_bytes_), bits, columns_);
  }

  device::TokenRows<kVector> tokens_;
  int lane_, columns_, reads_, width_;
  std::uint8_t* ring_;
  std::uint32_t grad_row_bytes_, bank_row_bytes_;
  device::RowPieces pieces_;
  G* grad_;
  const B* bank_;
  float* plane_;
  float old_[4] = {}, row_[4] = {}, acc_[4] = {};
};

template <typename Lanes, bool kVector, bool kDots, bool kGrouped>
__global__ void __launch_bounds__(device::kWalkThreads<kVector>, 1) walk_kernel(const Params p, const WalkShape shape) {
  extern __shared__ uint4 memory[];
  const int tokens_here = p.dims.valid_tokens(p.step);
  const int valid = tokens_here * p.dims.reads;
  const int positions = p.dims.read_positions();
  const device::WalkPlace place(p.dims, p.step, valid, shape, kGrouped ? shape.group : 1);
  const device::WalkMemory shared(memory, shape, p.dims.chunk, Lanes::kSlotBytes, place);
  device::RowStage stage(shared.barrier, shape.engine);
  __syncthreads();
  // Token rows and records are older than the previous launch.
  const float* d_reading = p.d_reading + place.chunk * p.dims.chunk * p.dims.head_dim;
  if (shape.staged)
    stage.start<kVector>(device::token_block(d_reading, tokens_here, p.dims.head_dim, place, shared, shape));
  device::RecordFeed feed(p.record + place.chunk * positions, shared.records, place, valid);
  const ColumnSlice slice = row_slice(p.dims.head_dim, Lanes::kSlices * place.slice);
  Lanes lanes(p, place, slice, d_reading, shared, shape);
  if (shape.asks) device::ask_rows(lanes, feed, feed.begin(), place.lane);
  device::wait_for_previous_grid();
  device::allow_next_grid();
  device::walk_rows(lanes, feed, shape.units, [&] {
    if (shape.staged) stage.wait<kVector>(shape.units);
  });
  if constexpr (kDots)
#pragma unroll
    for (int i = 0; i < Lanes::kSlices; ++i) {
      const std::int64_t plane = (Lanes::kSlices * place.slice + i) * p.dims.chunks() + place.chunk;
      device::clear_padding(p.d_qw_planes + plane * positions, valid, positions, place, shape);
    }
}

// --- for the launchers -----------------------------------------------------------------------------------------------

/// `group`: slices that a CTA had better walk together. `bf16_pair`: bf16 rows of gradient and bank come together.
inline WalkShape walk_shape(const Params& p, int slot_bytes, int group, bool bf16_pair, const LaunchContext& context) {
  const int width = row_slice_width(p.dims.head_dim);
  return choose_walk({.streams = p.dims.step_streams(),
                      .slices = slice_count(p.dims.head_dim),
                      .stride = (width + 3) / 4 * 4,
                      .chunk = p.dims.chunk,
                      .valid = p.dims.valid_tokens(p.step) * p.dims.reads,
                      .slot_bytes = slot_bytes,
                      .most_warps = walk_warps(p.dims.head_dim % 4 == 0),
                      .group = group,
                      .pieces_fit = bf16_pair && made_of_pieces(p.dims.head_dim, width),
                      .pairs_fit = bf16_pair && made_of_pairs(p.dims.head_dim, width)},
                     context);
}

inline device::LaunchShape launch_shape(const Params& p, const WalkShape& shape) {
  return {.grid = dim3(static_cast<unsigned>(p.dims.step_streams() * shape.slice_groups() * shape.parts)),
          .threads = shape.warps * kLanes,
          .shared_bytes = shape.shared_bytes};
}

/// Calls body.template operator()<G, B, kVector>() for the case's types; the gradient of an f32 bank is f32.
template <typename Body>
void dispatch_rows(const Params& p, Body&& body) {
  const auto with_vector = [&]<typename G, typename B>() {
    dispatch_value<false, true>(p.dims.head_dim % 4 == 0,
                                [&]<bool kVector>() { body.template operator()<G, B, kVector>(); });
  };
  if (p.bank.dtype == DType::f32) return with_vector.template operator()<float, float>();
  dispatch_real(p.grad.dtype, [&]<typename G>() { with_vector.template operator()<G, bf16_t>(); });
}

inline std::string refuse_types(const Params& p, const Device&) {
  if (p.bank.dtype == DType::f32 && p.grad.dtype == DType::bf16)
    return "read_grad keeps the gradient of an f32 bank in f32, not bf16; set grad_dtype to f32";
  return "";
}

}  // namespace sdm::read_grad
