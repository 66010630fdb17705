// write, variant `all_slices`: quantized snapshots of rows of any width on any GPU. A warp walks whole rows: first
// their largest magnitudes over all column strips, then, strip by strip, the fold, the snapshot and the new row. Rows
// of one strip stay in registers; wider ones are read again (from the L2, where they have just been). Token rows come
// through the L1: a chunk's whole rows need not fit shared memory. A warp holds one row in registers.
#include "kernels/write/walk.cuh"

namespace sdm::write {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kRowsAhead = 2;  // of a warp, asked of the L2

/// 32 lanes of kVectors 16-byte vectors: kStripColumns adjacent columns of a row.
template <typename T, bool kAligned, int kVectors_>
struct StripShape : RowShape<T, 32, kAligned> {
  static constexpr int kVectors = kVectors_;
  static constexpr int kStripColumns = kVectors * RowShape<T, 32, kAligned>::kColumns;
};

/// The columns of vector k of the lane in a strip.
template <typename S>
struct VectorColumns {
  int column, width;
  __device__ __forceinline__ VectorColumns(int strip, int k, int head_dim)
      : column(strip * S::kStripColumns + k * S::kColumns + static_cast<int>(threadIdx.x & 31) * S::kElements),
        width(min(max(head_dim - column, 0), S::kElements)) {}
};

template <typename S>
__device__ __forceinline__ void load_strip(const typename S::T* row, int strip, int head_dim,
                                           uint4 (&out)[S::kVectors]) {
#pragma unroll
  for (int k = 0; k < S::kVectors; ++k) {
    const VectorColumns<S> at(strip, k, head_dim);
    out[k] = load_columns<S>(row + at.column, at.width);
  }
}

/// acc = fma(scale, token row, acc) over one vector of columns.
template <typename S>
__device__ __forceinline__ void fold_vector(float scale, const float* token_row, const VectorColumns<S>& at,
                                            float (&acc)[S::kElements]) {
  float t[S::kElements] = {};
  if constexpr (S::kAligned) {
#pragma unroll
    for (int q = 0; q < S::kElements / 4; ++q) {
      const float4 quad = at.width > 0 ? *reinterpret_cast<const float4*>(token_row + at.column + 4 * q) : float4{};
      t[4 * q] = quad.x, t[4 * q + 1] = quad.y, t[4 * q + 2] = quad.z, t[4 * q + 3] = quad.w;
    }
  } else {
#pragma unroll
    for (int e = 0; e < S::kElements; ++e)
      if (e < at.width) t[e] = token_row[at.column + e];
  }
#pragma unroll
  for (int e = 0; e < S::kElements; ++e) acc[e] = fma_rn(scale, t[e], acc[e]);
}

/// The chunk that a CTA works on.
struct ChunkView {
  const Record* record;
  const float* token_rows;
  std::int64_t snapshot_row;  ///< of group 0
};

/// A group of the chunk, the same for the whole warp.
struct Group {
  int position;  ///< of its FIRST, whose record this is
  Record record;
  std::int64_t snapshot_row;
};

/// One strip of a group: fold, snapshot, new row.
template <typename S, Save kSave>
__device__ __forceinline__ void write_strip(const Params& p, const ChunkView& chunk, const Group& group, int strip,
                                            const RowCoder& coder, const uint4 (&base)[S::kVectors]) {
  const int head_dim = p.dims.head_dim, row_bytes = saved_bytes<S, kSave>(head_dim);
  typename S::T* row = static_cast<typename S::T*>(p.bank.data) + std::int64_t{group.record.slot} * head_dim;
  std::uint8_t* saved = static_cast<std::uint8_t*>(p.snapshot.rows) + group.snapshot_row * row_bytes;
#pragma unroll
  for (int k = 0; k < S::kVectors; ++k) {
    const VectorColumns<S> at(strip, k, head_dim);
    float acc[S::kElements] = {}, x[S::kElements];
    Record record = group.record;
    for (int position = group.position;;) {
      fold_vector<S>(record.scale, chunk.token_rows + std::int64_t{token_of(record.payload)} * head_dim, at, acc);
      if ((record.payload & kLast) != 0) break;
      record = chunk.record[++position];
    }
    device::widen<typename S::T>(base[k], x);
    save_columns<S, kSave>(saved + saved_bytes<S, kSave>(at.column), at.width, base[k], x, coder);
#pragma unroll
    for (int e = 0; e < S::kElements; ++e) acc[e] = fma_rn(x[e], record.c, acc[e]);
    store_columns<S, true>(row + at.column, at.width, device::narrow<typename S::T>(acc));
  }
}

/// The largest magnitude of a row, in every lane; `base` is left with the last strip.
template <typename S, bool kFlagNan>
__device__ __forceinline__ std::uint32_t row_amax(const typename S::T* row, int head_dim, int strips,
                                                  uint4 (&base)[S::kVectors]) {
  std::uint32_t amax = 0;
  for (int strip = 0; strip < strips; ++strip) {
    load_strip<S>(row, strip, head_dim, base);
    amax = max(amax, lane_amax<typename S::T, kFlagNan>(base));
  }
  return __reduce_max_sync(~0u, amax);
}

template <typename S, Save kSave>
__device__ __forceinline__ void write_group(const Params& p, const ChunkView& chunk, const Group& group) {
  const int head_dim = p.dims.head_dim, strips = (head_dim + S::kStripColumns - 1) / S::kStripColumns;
  const auto* row = static_cast<const typename S::T*>(p.bank.data) + std::int64_t{group.record.slot} * head_dim;
  uint4 base[S::kVectors];
  std::uint32_t amax = row_amax<S, true>(row, head_dim, strips, base);
  const bool nan = amax > kInfinity;
  if (nan) [[unlikely]]
    amax = row_amax<S, false>(row, head_dim, strips, base);  // again, without the NaNs
  const RowCoder coder = make_row_coder<kSave>(amax, !nan);
  if (threadIdx.x % 32 == 0) p.snapshot.scale[group.snapshot_row] = coder.scale;
  for (int strip = 0; strip < strips; ++strip) {
    if (strips > 1) load_strip<S>(row, strip, head_dim, base);
    write_strip<S, kSave>(p, chunk, group, strip, coder, base);
  }
}

/// The window of unit `unit` and the groups that begin in the unit's part of it, as bits.
struct OwnGroups {
  unsigned firsts, own;
  __device__ __forceinline__ OwnGroups(const uint4& record, int unit, int unit_shift) {
    const int part = 32 >> unit_shift, sub = unit & ((1 << unit_shift) - 1);
    firsts = __ballot_sync(~0u, (record.x & kFirst) != 0);
    own = firsts & device::bits_below((sub + 1) * part) & ~device::bits_below(sub * part);
  }
};

/// Asks the L2 for the row, at most its first 8 KiB, of the lowest group of `own`, if any.
template <typename S>
__device__ __forceinline__ void prefetch_row(const Params& p, unsigned own, const uint4& record) {
  constexpr std::uint32_t kGranule = 64, kMost = 8192;  // the L2 fetches a granule at least
  if (own == 0) return;
  const auto slot = static_cast<std::int32_t>(__shfl_sync(~0u, record.y, device::lowest_bit(own, 0)));
  const std::uint32_t bytes = static_cast<std::uint32_t>(p.dims.head_dim) * sizeof(typename S::T);
  const auto* row = reinterpret_cast<const char*>(row_at(static_cast<typename S::T*>(p.bank.data), slot, bytes));
  for (std::uint32_t at = kGranule * (threadIdx.x & 31); at < min(bytes, kMost); at += kGranule * 32)
    asm volatile("prefetch.global.L2 [%0];" ::"l"(row + at) : "memory");
}

/// grid.x = streams, grid.y = ranges of a chunk's units, as in walk.cuh with one column block.
/// kResident: CTAs an SM; one asks the L2 for the rows ahead, two hide the latency with warps.
template <typename S, Save kSave, int kResident>
__global__ void __launch_bounds__(32 * kMaxWarps, kResident)
    all_slices_kernel(const __grid_constant__ Params p, const __grid_constant__ Cut cut) {
  const Dims& d = p.dims;
  const int n = d.write_positions(), valid = d.valid_tokens(p.step) * d.writes;
  const std::int64_t index = std::int64_t{p.step} * d.streams + blockIdx.x;
  const ChunkView chunk{p.record + index * n, p.delta_v + index * d.chunk * d.head_dim, index * n};
  const ChunkRecords records{chunk.record, p.window + index * window_count(n), valid, cut.unit_shift};
  const int begin = static_cast<int>(blockIdx.y) * cut.units_per_cta, warps = static_cast<int>(blockDim.x) / 32;
  const int stop = min(((valid + 31) / 32) << cut.unit_shift, begin + cut.units_per_cta);
  int unit = begin + static_cast<int>(threadIdx.x) / 32;
  Unit current;
  if (unit < stop) {
    current = load_unit<kSave>(records, unit);
    unsigned own = OwnGroups(current.record, unit, cut.unit_shift).own;
    for (int i = 0; i < kRowsAhead && kResident == 1; ++i, own &= own - 1) prefetch_row<S>(p, own, current.record);
  }
  device::wait_for_previous_grid();
  device::allow_next_grid();
  while (unit < stop) {
    const OwnGroups groups(current.record, unit, cut.unit_shift);
    const std::int64_t row = chunk.snapshot_row + current.groups_before - 1;
    unsigned later = groups.own;
    for (int i = 0; i < kRowsAhead; ++i) later &= later - 1;
    for (unsigned own = groups.own; own != 0; own &= own - 1, later &= later - 1) {
      if constexpr (kResident == 1) prefetch_row<S>(p, later, current.record);
      const int first = device::lowest_bit(own, 0);
      const Record record{__shfl_sync(~0u, current.record.x, first),
                          static_cast<std::int32_t>(__shfl_sync(~0u, current.record.y, first)),
                          __uint_as_float(__shfl_sync(~0u, current.record.z, first)),
                          __uint_as_float(__shfl_sync(~0u, current.record.w, first))};
      write_group<S, kSave>(
          p, chunk,
          {32 * (unit >> cut.unit_shift) + first, record, row + __popc(groups.firsts & device::bits_below(first + 1))});
    }
    unit += warps;
    if (unit < stop) current = load_unit<kSave>(records, unit);
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

constexpr int kAlignedVectors = 4;  // rows of up to 2 KiB stay in registers

std::string refuse(const Params& p, const Device&) {
  if (std::string reason = refuse_common(p); !reason.empty()) return reason;
  if (!quantizes(p))
    return "all_slices is for fp8 and int4 snapshots; column slices are independent otherwise: use direct";
  return {};
}

/// Two CTAs an SM, without asking ahead, where a chunk's token rows are more than an SM's L1 could ever hold: they are
/// then what the L2 delivers most. H200, saving fp8 / int4, one against two CTAs: flag64 3386 / 3217 us against
/// 3443 / 3279, wide960 1752 / 1706 against 2066 / 2071, but flagship 7235 / 7029 against 6734 / 6343.
int resident_of(const Params& p, const Device& device) {
  return token_bytes(p, p.dims.head_dim) > 2 * device.shared_memory_per_multiprocessor ? 2 : 1;
}

/// One column block as wide as the row, and no shared memory.
WalkShape shape_of(const Params& p, const LaunchContext& context) {
  WalkShape shape = walk_shape(p, context, p.dims.head_dim, 32, 0, kMaxWarps, resident_of(p, context.device));
  shape.launch.shared_bytes = 0;
  return shape;
}

void launch(const Params& p, const LaunchContext& context) {
  const WalkShape shape = shape_of(p, context);
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    dispatch_value<Save::fp8, Save::int4>(save_of(p.snapshot), [&]<Save kSave>() {
      const auto launch_strips = [&]<typename S>() {
        dispatch_value<1, 2>(resident_of(p, context.device), [&]<int kResident>() {
          device::launch(all_slices_kernel<S, kSave, kResident>, shape.launch, context, p, shape.cut);
        });
      };
      if (rows_aligned(p))
        launch_strips.template operator()<StripShape<T, true, kAlignedVectors>>();
      else
        launch_strips.template operator()<StripShape<T, false, 1>>();
    });
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  return device::describe(shape_of(p, context).launch) + "; a warp walks whole rows, " +
         (resident_of(p, context.device) == 1 ? std::to_string(kRowsAhead) + " ahead" : std::string("two CTAs an SM"));
}

}  // namespace

const Variant<Params> all_slices{
    .name = "all_slices",
    .why = "fp8 and int4 rows of any width: a warp sees whole rows, no exchange",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::write
