#pragma once
// A lane's work in the walk of read_grad by pairs of slices (kernels/common/slice_pairs.cuh). Device code only.
#include "kernels/common/slice_pairs.cuh"
#include "kernels/read_grad/lanes.cuh"

namespace sdm::read_grad {

/// ReadLanes for rows of bf16, with dots.
class ReadPairs {
 public:
  static constexpr int kSlices = 2;
  static constexpr int kSlotBytes = device::PairRing<>::kSlot / kLanes;
  static constexpr bool kSharedCells = false;
  static constexpr bool kByRow = true, kReadAhead = true;

  __device__ ReadPairs(const Params& p, const device::WalkPlace& place, const ColumnSlice& first,
                       const float* /*tokens*/, const device::WalkMemory& memory, const WalkShape& shape)
      : at_(place.lane, first.width()),
        tokens_(at_, place.lane, place, memory, shape),
        ring_(memory.ring, static_cast<const bf16_t*>(p.grad.data) + first.begin, at_, place.lane,
              shape.units * kWalkUnit),
        lane_(place.lane),
        reads_(p.dims.reads),
        row_bytes_(static_cast<std::uint32_t>(p.dims.head_dim) * 2u) {
    grad_ = static_cast<bf16_t*>(p.grad.data) + first.begin + at_.column;
    bank_ = static_cast<const bf16_t*>(p.bank.data) + first.begin + at_.column;
    device::keep(grad_), device::keep(bank_);
    const std::int64_t plane = (kSlices * place.slice + at_.half) * p.dims.chunks() + place.chunk;
    plane_ = p.d_qw_planes + plane * p.dims.read_positions();
  }

  __device__ void ask(const uint2& head, int /*groups before*/) const {
    const int row = static_cast<int>(head.y), bytes = 2 * at_.columns;
    device::prefetch_l2(device::row_at(grad_, row, row_bytes_) - at_.column, bytes);
    device::prefetch_l2(device::row_at(bank_, row, row_bytes_) - at_.column, bytes);
  }
  __device__ __forceinline__ void issue(const uint2 (&heads)[kWalkUnit], int slot) const {
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) issue_row(heads[i], slot + i);
  }

  template <typename Wait>
  __device__ __forceinline__ void consume(const uint4* records, int slot, Wait&& wait, const device::UnitAhead& ahead) {
    Record record[kWalkUnit];
    std::uint32_t all = kFirst | kLast;
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) {
      record[i] = device::record_of(records[i]);
      all &= record[i].payload;
    }
    // far_first: the tree's last pair is a lane's quads.
    constexpr int kDots = 2 * kWalkUnit;
    const int mine = device::summed_value<kDots, device::Tree::far_first, 4, 2>(lane_) / 2;
    const std::uint32_t payload = records[mine].x;
    wait();
    const uint4* next = ahead.records();
    float dots[kDots];
    if (all == (kFirst | kLast))
      fold_unit<true>(record, slot, next, dots);
    else
      fold_unit<false>(record, slot, next, dots);
    ahead.done();
    device::transposed_sum<kDots, device::Tree::far_first, 4, 2>(dots, lane_);
    if (lane_ % 4 == 0 && payload != device::kNotOurs)
      plane_[token_of(payload) * reads_ + entry_of(payload)] = dots[0] + dots[1];
  }

 private:
  __device__ __forceinline__ void issue_row(const uint2& head, int slot) const {
    const bool on = (head.x & kFirst) != 0u && at_.inside;
    const int row = static_cast<int>(head.y);
    device::copy_async_on<16>(on, ring_.first_cell(slot), device::row_at(grad_, row, row_bytes_));
    device::copy_async_on<16>(on, ring_.second_cell(slot), device::row_at(bank_, row, row_bytes_));
  }
  /// ReadLanes::fold_unit, with the partials of a dot's two quads apart.
  template <bool kSingles>
  __device__ __forceinline__ void fold_unit(const Record (&record)[kWalkUnit], int slot, const uint4* next,
                                            float (&dots)[2 * kWalkUnit]) {
#pragma unroll
    for (int i = 0; i < kWalkUnit; ++i) {
      device::PairColumns x;
      tokens_.load(token_of(record[i].payload), x);
      if (kSingles || (record[i].payload & kFirst) != 0u) open_group(slot + i);
      issue_row(next ? device::head_of(next[i]) : uint2{0, 0}, slot + i);
      device::for_columns([&](int q, int j) { acc_[q][j] = fma_rn(record[i].scale, x[q][j], acc_[q][j]); });
      dots[2 * i] = device::quad_dot(x[0], row_[0]);
      dots[2 * i + 1] = device::quad_dot(x[1], row_[1]);
      if ((kSingles || (record[i].payload & kLast) != 0u) && at_.inside) close_group(record[i].slot);
    }
  }
  __device__ __forceinline__ void open_group(int slot) {
    device::widen_pair(ring_.first(slot), old_);
    device::widen_pair(ring_.second(slot), row_);
    device::for_columns([&](int q, int j) { acc_[q][j] = 0.0f; });
  }
  __device__ __forceinline__ void close_group(std::int32_t slot) const {
    device::PairColumns updated;
    device::for_columns([&](int q, int j) { updated[q][j] = old_[q][j] + acc_[q][j]; });
    device::store_global(device::row_at(grad_, slot, row_bytes_), device::narrow_pair(updated));
  }

  device::PairPlace at_;
  device::PairTokens tokens_;
  device::PairRing<> ring_;
  int lane_, reads_;
  std::uint32_t row_bytes_;
  bf16_t* grad_;
  const bf16_t* bank_;
  float* plane_;
  device::PairColumns old_ = {}, row_ = {}, acc_ = {};
};

}  // namespace sdm::read_grad
