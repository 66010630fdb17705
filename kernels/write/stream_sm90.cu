// write, variant `stream`: raw snapshot rows leave in group order by bulk stores. A lane group packs the base rows of a
// batch into shared memory; consecutive groups are consecutive snapshot rows, so where the column block is the whole
// row a batch is one bulk store, else one store a row.
#include "kernels/write/groups.cuh"

namespace sdm::write {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kDepth = 8;
constexpr int kStageBytes =
    2 * kDepth * 32 * 16;  // of a warp: two buffers, so that packing need not wait for the last store

__device__ __forceinline__ void store_shared(std::uint32_t to, const uint4& x) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w) : "memory");
}
__device__ __forceinline__ uint4 load_shared(std::uint32_t from) {
  uint4 x;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(x.x), "=r"(x.y), "=r"(x.z), "=r"(x.w) : "r"(from));
  return x;
}

template <typename S>
struct StreamBatch {
  using Shape = S;
  using Work = Groups<S, kDepth>;
  static constexpr Save kSave = Save::raw;
  static constexpr bool kHoldsRows = false;
  static constexpr Ask kAsk = Ask::late;
  std::uint32_t stage;  ///< shared address of the lane group's part of the first buffer
  int call = 0;

  template <typename Ready>
  __device__ __forceinline__ void operator()(const LaneView<S>& v, const ChunkRecords& chunk, const Work& at,
                                             const Work& /*next*/, Ready& ready) {
    const int lane = static_cast<int>(threadIdx.x) % S::kLanes;
    const int row_bytes = v.columns * static_cast<int>(sizeof(typename S::T));
    const std::uint32_t buffer = stage + (call++ & 1) * (kStageBytes / 2);
    const auto packed = [&](int j) {
      return buffer + __popc(at.firsts & device::bits_below(j)) * row_bytes + 16 * lane;
    };
    {
      uint4 base[kDepth];
      load_rows(v, at, base);
      ready();
      device::wait_stores_read<1>();  // the buffer's own last store; the other may go on
      __syncwarp();
#pragma unroll
      for (int j = 0; j < kDepth; ++j)
        if (at.first(j) && v.width > 0) store_shared(packed(j), base[j]);
    }
    send(v, at.ordinal + 1, __popc(at.firsts), buffer, row_bytes);
    device::commit_stores();  // every lane counts one group a call
#pragma unroll
    for (int j = 0; j < kDepth; ++j) {
      uint4 base{0, 0, 0, 0};  // the lane's own bytes again: cheaper than 32 registers
      if (at.first(j) && v.width > 0) base = load_shared(packed(j));
      write_group<S, Save::none>(v, chunk, at, j, 0, base, true);
    }
  }

  /// `rows` rows lie packed in `buffer`; they are adjacent in the snapshot, from `ordinal` on.
  __device__ __forceinline__ void send(const LaneView<S>& v, int ordinal, int rows, std::uint32_t buffer,
                                       int row_bytes) {
    const int lane = static_cast<int>(threadIdx.x) % S::kLanes;
    device::fence_for_engines();
    __syncwarp();
    auto* to = row_at(v.saved - 16 * lane, ordinal, v.saved_row_bytes);
    if (row_bytes == static_cast<int>(v.saved_row_bytes)) {
      if (lane == 0 && rows > 0) device::store_bytes(to, buffer, rows * row_bytes);
    } else if (lane < rows) {
      device::store_bytes(row_at(to, lane, v.saved_row_bytes), buffer + lane * row_bytes, row_bytes);
    }
  }
};

template <typename S>
__global__ void __launch_bounds__(32 * kMaxWarps, 1)
    stream_kernel(const __grid_constant__ Params p, const __grid_constant__ Cut cut) {
  extern __shared__ float4 shared[];
  auto* tokens = reinterpret_cast<float*>(shared);
  auto* stages = reinterpret_cast<unsigned char*>(reinterpret_cast<Record*>(tokens + token_floats<S>(p.dims.chunk)) +
                                                  kTableRecords * blockDim.x / 32);
  const int warp = static_cast<int>(threadIdx.x) / 32, group = static_cast<int>(threadIdx.x) % 32 / S::kLanes;
  const std::uint32_t stage = device::shared_address(stages + warp * kStageBytes + group * kDepth * S::kLanes * 16);
  walk(p, cut, tokens, StreamBatch<S>{stage});
  device::wait_stores_read();  // shared memory must outlive the stores' reads
}

// --- launchers -------------------------------------------------------------------------------------------------------

struct Plan {
  WalkShape shape;
  int columns, lanes;
};

int room_for(const Params& p, const Device& device, int columns) {
  const auto free =
      static_cast<std::int64_t>(device.shared_memory_per_block) - static_cast<std::int64_t>(token_bytes(p, columns));
  return static_cast<int>(std::clamp<std::int64_t>(free / (kStageBytes + static_cast<int>(kTableBytes)), 0, kMaxWarps));
}

Plan plan_of(const Params& p, const LaunchContext& context) {
  Plan plan{};
  plan.columns = p.dims.head_dim <= 64 || room_for(p, context.device, 128) < 8 ? 64 : 128;
  plan.lanes = plan.columns * static_cast<int>(size_of(p.bank.dtype)) / 16;
  plan.shape = walk_shape(p, context, plan.columns, plan.lanes, kDepth, room_for(p, context.device, plan.columns));
  plan.shape.launch.shared_bytes += static_cast<std::size_t>(plan.shape.launch.threads / 32 * kStageBytes);
  return plan;
}

std::string refuse(const Params& p, const Device& device) {
  if (std::string reason = refuse_common(p); !reason.empty()) return reason;
  if (device.compute_capability != 90 || device.force_portable)
    return "stream is built for compute capability 9.0 (bulk stores from shared memory); direct saves on any GPU";
  if (save_of(p.snapshot) != Save::raw) return "stream is for saving raw snapshots; for anything else use direct";
  if (!rows_aligned(p)) return "stream stores rows in 16-byte pieces; " + unaligned_row(p) + " needs direct";
  if (room_for(p, device, 64) < 1)
    return "stream keeps 64 columns of a chunk's token rows and two buffers in shared memory (" +
           std::to_string(token_bytes(p, 64) + kStageBytes + kTableBytes) + " bytes); this GPU offers " +
           std::to_string(device.shared_memory_per_block);
  return {};
}

void launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    constexpr int kHalf = 64 / device::kVec<T>;
    if (plan.columns == 64)
      device::launch(stream_kernel<RowShape<T, kHalf, true>>, plan.shape.launch, context, p, plan.shape.cut);
    else
      device::launch(stream_kernel<RowShape<T, 2 * kHalf, true>>, plan.shape.launch, context, p, plan.shape.cut);
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const Plan plan = plan_of(p, context);
  return describe(plan.shape, plan.columns, plan.lanes, kDepth);
}

}  // namespace

const Variant<Params> stream{
    .name = "stream",
    .why = "raw snapshot rows leave by bulk stores in group order",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::write
