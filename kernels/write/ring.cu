// write, variant `ring`: base rows come through a per-warp ring in shared memory, one cp.async a row and lane, so that
// rows in flight cost no registers. A lane reads back only what it copied itself: no warp barrier is needed. fp8 and
// int4 rows are saved where a lane group holds whole rows.
//
// At small steps a launch is one round of 16 warps an SM that walk 8 positions a lane group, and what counts is the
// chain of latencies and the instructions of a warp, so loops stay rolled.
#include "kernels/write/pieces.cuh"

namespace sdm::write {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kSlotBytes = 32 * 16;  // of a warp
constexpr int kBatch = 8;            // rows whose maxima are found together

/// Walks a whole piece (at most 32 positions) in batches of kBatch, `depth` rows ahead: kBatch, or a larger power of
/// two.
template <typename S, Save kSave>
struct RingRows {
  uint4* ring;  ///< the lane's 16 bytes of slot 0
  int depth;

  __device__ __forceinline__ uint4& slot(int j) const { return ring[(j & (depth - 1)) * 32]; }
  __device__ __forceinline__ void request(const LaneView<S>& v, const Piece& piece, int j) const {
    if (((piece.stores >> j) & 1u) != 0)
      device::copy_async<16>(&slot(j), row_at(v.bank, v.table[(piece.begin + j) & 31].slot, v.row_bytes));
    device::commit_copies();  // one a position, empty or not
  }
  /// The rows of the batch at b have arrived: of those requested since, `depth - kBatch` may be on their way.
  __device__ __forceinline__ void wait(const Piece& piece, int b) const {
    if (depth == kBatch || b + depth > piece.longest) return device::wait_copies_but<0>();
    if (depth <= 16) return device::wait_copies_but<16 - kBatch>();
    device::wait_copies_but<32 - kBatch>();
  }

  template <typename Ready>
  __device__ __forceinline__ void operator()(const LaneView<S>& v, Piece piece, float (&acc)[S::kElements],
                                             Ready& ready) {
    const int ahead = min(depth, piece.longest);
#pragma unroll 2
    for (int j = 0; j < ahead; ++j) request(v, piece, j);
    if constexpr (!is_quantized(kSave)) ready();
    int ordinal = piece.ordinal;
#pragma unroll 1
    for (int b = 0; b < piece.longest; b += kBatch) {
      wait(piece, b);
      RowCoder mine;
      if constexpr (is_quantized(kSave)) {
        Piece rest = piece;
        rest.advance(b);
        // At a position that ends no group old bits lie here: they only cost time should they look like a NaN.
        const auto row = [&](int j) -> const uint4& { return slot(b + j); };
        NoExchange exchange;
        mine = batch_coder<S, kSave, kBatch>(row, exchange);
        save_scales<S, kBatch>(v, rest, mine.scale);
        ready();  // not before: the maxima take the time that other warps' copies take
      }
#pragma unroll 1
      for (int j = b; j < min(b + kBatch, piece.longest); ++j) {
        RowCoder coder;
        if constexpr (is_quantized(kSave)) coder = coder_of_lane(mine, j - b, kBatch);
        ordinal += static_cast<int>((piece.firsts >> j) & 1u);
        write_position<S, kSave>(v, piece, j, ordinal, slot(j), coder, acc);
        if (j + depth < piece.longest) request(v, piece, j + depth);
      }
    }
    __syncwarp();
  }
};

/// The table is filled window by window, so a unit is all that is known before.
template <typename S>
struct RingWork {
  Unit unit;
  RingWork() = default;
  __device__ __forceinline__ RingWork(const LaneView<S>&, const ChunkRecords&, const Unit& loaded) : unit(loaded) {}
};

/// The Batch (walk.cuh).
template <typename S, Save kSave_>
struct RingBatch {
  using Shape = S;
  using Work = RingWork<S>;
  static constexpr Save kSave = kSave_;
  static constexpr bool kHoldsRows = false;
  static constexpr Ask kAsk = Ask::late;
  RingRows<S, kSave> rows;

  template <typename Ready>
  __device__ __forceinline__ void operator()(const LaneView<S>& v, const ChunkRecords& chunk, const Work& work,
                                             const Work& /*next*/, Ready& ready) {
    write_unit(v, chunk, work.unit, rows, ready);
  }
};

template <typename S, Save kSave>
__global__ void __launch_bounds__(32 * kMaxWarps, 1)
    ring_kernel(const __grid_constant__ Params p, const __grid_constant__ Cut cut, int depth) {
  extern __shared__ float4 shared[];
  auto* tokens = reinterpret_cast<float*>(shared);
  auto* tables = reinterpret_cast<Record*>(tokens + token_floats<S>(p.dims.chunk));
  auto* rings = reinterpret_cast<uint4*>(tables + kTableRecords * blockDim.x / 32);
  const int warp = static_cast<int>(threadIdx.x) / 32;
  auto* const ring = rings + warp * depth * 32 + threadIdx.x % 32;
  // Lanes past the row copy nothing; their zeros are no part of a maximum.
  if (is_quantized(kSave) && static_cast<int>(threadIdx.x) % S::kLanes * S::kElements >= p.dims.head_dim)
    for (int j = 0; j < depth; ++j) ring[j * 32] = {0, 0, 0, 0};
  walk(p, cut, tokens, RingBatch<S, kSave>{{ring, depth}});
}

// --- launchers -------------------------------------------------------------------------------------------------------

struct Plan {
  WalkShape shape;
  int columns, lanes, depth;
};

/// Room for warps beside the token rows in `bytes` of shared memory.
int room_for(const Params& p, std::size_t bytes, int columns, int depth) {
  const auto free = static_cast<std::int64_t>(bytes) - static_cast<std::int64_t>(token_bytes(p, columns));
  return static_cast<int>(
      std::clamp<std::int64_t>(free / (static_cast<int>(kTableBytes) + kSlotBytes * depth), 0, kMaxWarps));
}

/// 64 columns where rows are no wider and where 128 leave no room for 8 warps; else 128.
int columns_of(const Params& p, const Device& device) {
  return p.dims.head_dim <= 64 || room_for(p, device.shared_memory_per_block, 128, 8) < 8 ? 64 : 128;
}

/// 8 rows ahead; a depth asked for (8, 16 or 32) is halved until 8 warps fit.
int depth_of(const Params& p, const LaunchContext& context, int columns) {
  const int asked = context.geometry.depth;
  int depth = asked >= 32 ? 32 : (asked >= 16 ? 16 : 8);
  while (depth > 8 && room_for(p, context.device.shared_memory_per_block, columns, depth) < 8) depth /= 2;
  return depth;
}

/// More than half of an SM's shared memory in any case: with dependent launch the next grid's CTAs would else become
/// resident beside this one's, two on some SMs and none on others (H200, not saving: default 546 us against 506,
/// flag64 2827 against 2579).
Plan plan_of(const Params& p, const LaunchContext& context) {
  Plan plan{};
  const Device& device = context.device;
  plan.columns = columns_of(p, device);
  plan.lanes = plan.columns * static_cast<int>(size_of(p.bank.dtype)) / 16;
  plan.depth = depth_of(p, context, plan.columns);
  plan.shape = walk_shape(p, context, plan.columns, plan.lanes, 0,
                          room_for(p, device.shared_memory_per_block, plan.columns, plan.depth));
  const auto rings = static_cast<std::size_t>(plan.shape.launch.threads / 32 * kSlotBytes * plan.depth);
  plan.shape.launch.shared_bytes =
      std::max(plan.shape.launch.shared_bytes + rings,
               std::min(device.shared_memory_per_block, device.shared_memory_per_multiprocessor / 2));
  return plan;
}

std::string refuse(const Params& p, const Device& device) {
  if (std::string reason = refuse_common(p); !reason.empty()) return reason;
  if (!rows_aligned(p)) return "ring copies rows in 16-byte pieces; " + unaligned_row(p) + " needs direct";
  if (quantizes(p) && p.dims.head_dim > columns_of(p, device))
    return "ring quantizes rows of at most " + std::to_string(columns_of(p, device)) + " columns, not " +
           std::to_string(p.dims.head_dim) + ": a row's scale needs its largest magnitude; use cluster or all_slices";
  if (room_for(p, device.shared_memory_per_block, 64, 8) < 1)
    return "ring keeps 64 columns of a chunk's token rows and a ring in shared memory (" +
           std::to_string(token_bytes(p, 64) + kTableBytes + 8 * kSlotBytes) + " bytes); this GPU offers " +
           std::to_string(device.shared_memory_per_block);
  return {};
}

template <typename S>
void launch_shape(const Params& p, const LaunchContext& context, const Plan& plan) {
  dispatch_value<Save::none, Save::raw, Save::bf16, Save::fp8, Save::int4>(save_of(p.snapshot), [&]<Save kSave>() {
    device::launch(ring_kernel<S, kSave>, plan.shape.launch, context, p, plan.shape.cut, plan.depth);
  });
}

void launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    if (plan.columns == 64) return launch_shape<RowShape<T, 64 / device::kVec<T>, true>>(p, context, plan);
    launch_shape<RowShape<T, 128 / device::kVec<T>, true>>(p, context, plan);
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  return describe(plan.shape, plan.columns, plan.lanes, plan.depth);
}

}  // namespace

const Variant<Params> ring{
    .name = "ring",
    .why = "base rows through a shared-memory ring: rows in flight without registers",
    // Rows that begin inside a 32-byte sector: H200, small120 (240 bytes), not saving 401 us against 486 for direct,
    // saving raw 537 against 684 and fp8 521 against 617 (both of an earlier form of direct). Rows of whole sectors:
    // default raw 559 against 486, flag64 3693 against 3653.
    .suits = [](const Params& p,
                const Device&) { return static_cast<std::size_t>(p.dims.head_dim) * size_of(p.bank.dtype) % 32 != 0; },
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::write
