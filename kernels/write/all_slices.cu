// write, variant `all_slices`: quantized snapshots of rows of any width on any GPU. A warp walks whole rows: first
// their largest magnitudes over all column strips, then, strip by strip, the fold, the snapshot and the new row. Rows
// of one strip stay in registers; wider ones are read again (from the L2, where they have just been). Token rows come
// through the L1: a chunk's whole rows need not fit shared memory.
#include "kernels/write/walk.cuh"

namespace sdm::write {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kRows = 2;  // rows of a warp in flight

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
__device__ __forceinline__ void load_strip(const typename S::T* row, int strip, int head_dim, bool wanted,
                                           uint4 (&out)[S::kVectors]) {
#pragma unroll
  for (int k = 0; k < S::kVectors; ++k) {
    const VectorColumns<S> at(strip, k, head_dim);
    out[k] = load_columns<S>(row + at.column, wanted ? at.width : 0);
  }
}

/// acc = fma(scale, token row, acc) over the lane's columns of a strip.
template <typename S>
__device__ __forceinline__ void fold_strip(float scale, const float* token_row, int strip, int head_dim,
                                           float (&acc)[S::kVectors][S::kElements]) {
#pragma unroll
  for (int k = 0; k < S::kVectors; ++k) {
    const VectorColumns<S> at(strip, k, head_dim);
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
    for (int e = 0; e < S::kElements; ++e) acc[k][e] = fma_rn(scale, t[e], acc[k][e]);
  }
}

/// The chunk that a CTA works on.
struct ChunkView {
  const Record* record;
  const float* token_rows;
  std::int64_t snapshot_row;
};

/// One strip of the group that begins at position `first`: fold, snapshot, new row.
template <typename S>
__device__ __forceinline__ void write_strip(const Params& p, const ChunkView& chunk, int first, int strip,
                                            std::int64_t snapshot_row, RowScale scale,
                                            const uint4 (&base)[S::kVectors]) {
  const int head_dim = p.dims.head_dim;
  float acc[S::kVectors][S::kElements] = {};
  Record record;
  for (int position = first;; ++position) {  // the same for the whole warp
    record = chunk.record[position];
    fold_strip<S>(record.scale, chunk.token_rows + std::int64_t{token_of(record.payload)} * head_dim, strip, head_dim,
                  acc);
    if ((record.payload & kLast) != 0) break;
  }
  typename S::T* row = static_cast<typename S::T*>(p.bank.data) + std::int64_t{record.slot} * head_dim;
#pragma unroll
  for (int k = 0; k < S::kVectors; ++k) {
    const VectorColumns<S> at(strip, k, head_dim);
    float x[S::kElements], updated[S::kElements];
    device::widen<typename S::T>(base[k], x);
    save_columns<S, Save::quantized>(p.snapshot, head_dim, snapshot_row, at.column, at.width, base[k], x, scale,
                                     at.column == 0);
#pragma unroll
    for (int e = 0; e < S::kElements; ++e) updated[e] = fma_rn(x[e], record.c, acc[k][e]);
    store_columns<S>(row + at.column, at.width, device::narrow<typename S::T>(updated));
  }
}

/// kRows groups at once; `first[r]` is the position of a FIRST, negative for none; ordinals are adjacent.
template <typename S>
__device__ __forceinline__ void write_rows(const Params& p, const ChunkView& chunk, const int (&first)[kRows],
                                           int ordinal) {
  const int head_dim = p.dims.head_dim, strips = (head_dim + S::kStripColumns - 1) / S::kStripColumns;
  const typename S::T* row[kRows];
  uint4 base[kRows][S::kVectors];
  std::uint32_t amax[kRows] = {};
#pragma unroll
  for (int r = 0; r < kRows; ++r)
    row[r] = static_cast<const typename S::T*>(p.bank.data) +
             std::int64_t{first[r] < 0 ? 0 : chunk.record[first[r]].slot} * head_dim;
  for (int strip = 0; strip < strips; ++strip) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) load_strip<S>(row[r], strip, head_dim, first[r] >= 0, base[r]);
#pragma unroll
    for (int r = 0; r < kRows; ++r)
#pragma unroll
      for (int k = 0; k < S::kVectors; ++k) amax[r] = max(amax[r], lane_amax<typename S::T>(base[r][k]));
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    if (first[r] < 0) continue;
    const RowScale scale =
        make_row_scale(__uint_as_float(__reduce_max_sync(~0u, amax[r])), limit_of(p.snapshot.format));
    for (int strip = 0; strip < strips; ++strip) {
      if (strips > 1) load_strip<S>(row[r], strip, head_dim, true, base[r]);
      write_strip<S>(p, chunk, first[r], strip, chunk.snapshot_row + ordinal + r, scale, base[r]);
    }
  }
}

/// grid.x = streams, grid.y = ranges of a chunk's units, as in walk.cuh with one column block.
template <typename S>
__global__ void __launch_bounds__(32 * kMaxWarps, 1)
    all_slices_kernel(const __grid_constant__ Params p, const __grid_constant__ Cut cut) {
  device::wait_for_previous_grid();
  device::allow_next_grid();
  const Dims& d = p.dims;
  const int n = d.write_positions(), valid = d.valid_tokens(p.step) * d.writes;
  const std::int64_t index = std::int64_t{p.step} * d.streams + blockIdx.x;
  const ChunkView chunk{p.record + index * n, p.delta_v + index * d.chunk * d.head_dim, index * n};
  const Window* window = p.window + index * window_count(n);
  const int part = 32 >> cut.unit_shift;
  const int begin = static_cast<int>(blockIdx.y) * cut.units_per_cta;
  const int stop = min(((valid + 31) / 32) << cut.unit_shift, begin + cut.units_per_cta);
  for (int unit = begin + static_cast<int>(threadIdx.x) / 32; unit < stop; unit += static_cast<int>(blockDim.x) / 32) {
    const int w = unit >> cut.unit_shift, sub = unit & ((1 << cut.unit_shift) - 1);
    const uint4 record = device::load_record(chunk.record, w, valid);
    const unsigned firsts = __ballot_sync(~0u, (record.x & kFirst) != 0);
    unsigned own = firsts & device::bits_below((sub + 1) * part) & ~device::bits_below(sub * part);
    int ordinal = window[w].groups_before + __popc(firsts & device::bits_below(sub * part));
    while (own != 0) {
      int first[kRows];
#pragma unroll
      for (int& f : first) {
        f = own != 0 ? 32 * w + device::lowest_bit(own, 0) : -1;
        own &= own - 1;
      }
      write_rows<S>(p, chunk, first, ordinal);
      ordinal += kRows;
    }
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
  WalkShape shape = walk_shape(p, context, p.dims.head_dim, 32);
  shape.launch.shared_bytes = 0;
  return shape;
}

void launch(const Params& p, const LaunchContext& context) {
  const WalkShape shape = shape_of(p, context);
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    if (rows_aligned(p))
      device::launch(all_slices_kernel<StripShape<T, true, kAlignedVectors>>, shape.launch, context, p, shape.cut);
    else
      device::launch(all_slices_kernel<StripShape<T, false, 1>>, shape.launch, context, p, shape.cut);
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  return device::describe(shape_of(p, context).launch) + "; a warp walks whole rows, " + std::to_string(kRows) +
         " in flight";
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
