// write, variant `all_slices`: quantized snapshots of rows of any width on any GPU. A warp walks whole rows: first
// their largest magnitudes over all column strips, then, strip by strip, the fold, the snapshot and the new row. Rows
// of one strip stay in registers; wider ones are read again (from the L2, where they have just been). Token rows come
// through the L1: a chunk's whole rows need not fit shared memory. One row is in registers and the next ones are on their
// way to the L2, so that 64 registers do, and 32 warps an SM hide what latency is left.
#include "kernels/write/walk.cuh"

#ifndef XRES
#define XRES 2
#endif
namespace sdm::write {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kResident = XRES;          // CTAs an SM
constexpr int kRowsAhead = 2;         // of a warp, asked of the L2
constexpr int kMostPrefetch = 16384;  // bytes of a row

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
__device__ __forceinline__ void load_strip(const typename S::T* row, int strip, int head_dim, uint4 (&out)[S::kVectors]) {
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
    store_columns<S>(row + at.column, at.width, device::narrow<typename S::T>(acc));
  }
}

/// The largest magnitude of a row, in every lane; `base` is left with the last strip.
template <typename S, bool kFlagNan>
__device__ __forceinline__ std::uint32_t row_amax(const typename S::T* row, int head_dim, int strips,
                                                  uint4 (&base)[S::kVectors]) {
  std::uint32_t amax = 0;
  for (int strip = 0; strip < strips; ++strip) {
    load_strip<S>(row, strip, head_dim, base);
#pragma unroll
    for (int k = 0; k < S::kVectors; ++k) amax = max(amax, lane_amax<typename S::T, kFlagNan>(base[k]));
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
  if (nan) [[unlikely]] amax = row_amax<S, false>(row, head_dim, strips, base);  // again, without the NaNs
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

/// Asks the L2 for the rows of those groups of `own` that are number `from` to `from + count - 1` of it.
template <typename S>
__device__ __forceinline__ void prefetch_whole_rows(const Params& p, unsigned own, const uint4& record, int from,
                                                    int count) {
#if __CUDA_ARCH__ >= 900 && XPF == 1
  const unsigned lane = threadIdx.x & 31;
  const int rank = __popc(own & device::bits_below(static_cast<int>(lane)));
  if (S::kAligned && ((own >> lane) & 1u) != 0 && rank >= from && rank < from + count)
    asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(static_cast<const typename S::T*>(p.bank.data) +
                                                                     static_cast<std::int64_t>(record.y) * p.dims.head_dim),
                 "r"(min(p.dims.head_dim * static_cast<int>(sizeof(typename S::T)), kMostPrefetch))
                 : "memory");
#endif
}

/// grid.x = streams, grid.y = ranges of a chunk's units, as in walk.cuh with one column block.
template <typename S, Save kSave>
__global__ void __launch_bounds__(32 * kMaxWarps, kResident)
    all_slices_kernel(const __grid_constant__ Params p, const __grid_constant__ Cut cut) {
  const Dims& d = p.dims;
  const int n = d.write_positions(), valid = d.valid_tokens(p.step) * d.writes;
  const std::int64_t index = std::int64_t{p.step} * d.streams + blockIdx.x;
  const ChunkView chunk{p.record + index * n, p.delta_v + index * d.chunk * d.head_dim, index * n};
  const Window* window = p.window + index * window_count(n);
  const int begin = static_cast<int>(blockIdx.y) * cut.units_per_cta, warps = static_cast<int>(blockDim.x) / 32;
  const int stop = min(((valid + 31) / 32) << cut.unit_shift, begin + cut.units_per_cta);
  int unit = begin + static_cast<int>(threadIdx.x) / 32;
  Unit current;
  if (unit < stop) {
    current = load_unit<kSave>(chunk.record, window, unit >> cut.unit_shift, valid);
    prefetch_whole_rows<S>(p, OwnGroups(current.record, unit, cut.unit_shift).own, current.record, 0, kRowsAhead);
  }
  device::wait_for_previous_grid();
  device::allow_next_grid();
  while (unit < stop) {
    const OwnGroups groups(current.record, unit, cut.unit_shift);
    const std::int64_t row = chunk.snapshot_row + current.groups_before - 1;
    int done = 0;
    for (unsigned own = groups.own; own != 0; own &= own - 1, ++done) {
      prefetch_whole_rows<S>(p, groups.own, current.record, done + kRowsAhead, 1);
      const int first = device::lowest_bit(own, 0);
      const Record record{__shfl_sync(~0u, current.record.x, first),
                          static_cast<std::int32_t>(__shfl_sync(~0u, current.record.y, first)),
                          __uint_as_float(__shfl_sync(~0u, current.record.z, first)),
                          __uint_as_float(__shfl_sync(~0u, current.record.w, first))};
      write_group<S, kSave>(p, chunk,
                     {32 * (unit >> cut.unit_shift) + first, record,
                      row + __popc(groups.firsts & device::bits_below(first + 1))});
    }
    unit += warps;
    if (unit < stop) current = load_unit<kSave>(chunk.record, window, unit >> cut.unit_shift, valid);
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

/// One column block as wide as the row, and no shared memory.
WalkShape shape_of(const Params& p, const LaunchContext& context) {
  WalkShape shape = walk_shape(p, context, p.dims.head_dim, 32, kMaxWarps, kResident);
  shape.launch.shared_bytes = 0;
  return shape;
}

void launch(const Params& p, const LaunchContext& context) {
  const WalkShape shape = shape_of(p, context);
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    dispatch_value<Save::fp8, Save::int4>(save_of(p.snapshot), [&]<Save kSave>() {
      if (rows_aligned(p))
        device::launch(all_slices_kernel<StripShape<T, true, kAlignedVectors>, kSave>, shape.launch, context, p,
                       shape.cut);
      else
        device::launch(all_slices_kernel<StripShape<T, false, 1>, kSave>, shape.launch, context, p, shape.cut);
    });
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  return device::describe(shape_of(p, context).launch) + "; a warp walks whole rows, " +
         std::to_string(kRowsAhead) + " ahead";
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
