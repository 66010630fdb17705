// write, variant `ring`: base rows come through a per-warp ring in shared memory, one cp.async a row and lane, so that
// rows in flight cost no registers. A lane reads back only what it copied itself: no warp barrier is needed.
#include "kernels/write/walk.cuh"

namespace sdm::write {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kSlotBytes = 32 * 16;  // of a warp

/// Walks a whole span (at most 32 positions) with kDepth rows ahead. `ring`: the lane's 16 bytes of slot 0.
template <typename S, Save kSave_, int kDepth>
struct RingBatch {
  using Shape = S;
  static constexpr Save kSave = kSave_;
  static constexpr int kStep = 32;
  uint4* ring;

  __device__ __forceinline__ void request(const LaneView<S>& v, const device::RecordWindow& window, int i, int end) {
    if (v.width > 0 && window.ends_at(i, end)) {
      const void* from = v.bank + std::int64_t{window.table[i].slot} * v.head_dim;
      const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(ring + i % kDepth * 32));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    }
    asm volatile("cp.async.commit_group;" ::: "memory");  // one a position, empty or not: position k waits for group k
  }

  template <typename Ready>
  __device__ __forceinline__ void operator()(const LaneView<S>& v, const device::RecordWindow& window, int begin,
                                             int end, int groups_before, float (&acc)[S::kElements], Ready& ready) {
    for (int j = 0; j < kDepth; ++j) request(v, window, begin + j, end);
    ready();
    for (int i = begin; i < end; ++i) {
      asm volatile("cp.async.wait_group %0;" ::"n"(kDepth - 1) : "memory");
      const uint4 base = ring[i % kDepth * 32];
      write_position<S, kSave>(v, window, i, end, groups_before, base, RowScale{}, acc);
      request(v, window, i + kDepth, end);
    }
    __syncwarp();
  }
};

template <typename S, Save kSave, int kDepth>
__global__ void __launch_bounds__(32 * kMaxWarps, 1)
    ring_kernel(const __grid_constant__ Params p, const __grid_constant__ Cut cut) {
  extern __shared__ float4 shared[];
  auto* tokens = reinterpret_cast<float*>(shared);
  auto* rings = reinterpret_cast<uint4*>(tokens + p.dims.chunk * S::kColumns) + blockDim.x;  // past the record tables
  const int warp = static_cast<int>(threadIdx.x) / 32;
  walk(p, cut, tokens, RingBatch<S, kSave, kDepth>{rings + warp * kDepth * 32 + threadIdx.x % 32});
}

// --- launchers -------------------------------------------------------------------------------------------------------

struct Plan {
  WalkShape shape;
  int columns, lanes, depth;
};

/// Room for warps beside the token rows.
int room_for(const Params& p, const Device& device, int columns, int depth) {
  const auto free =
      static_cast<std::int64_t>(device.shared_memory_per_block) - static_cast<std::int64_t>(token_bytes(p, columns));
  return static_cast<int>(std::clamp<std::int64_t>(free / (kSlotBytes * (1 + depth)), 0, kMaxWarps));
}

/// The depth asked for (8, 16 or 32; else 16), halved until 8 warps fit; 128 columns, else 64.
Plan plan_of(const Params& p, const LaunchContext& context) {
  Plan plan{};
  plan.columns = p.dims.head_dim <= 64 || room_for(p, context.device, 128, 8) < 8 ? 64 : 128;
  plan.lanes = plan.columns * static_cast<int>(size_of(p.bank.dtype)) / 16;
  const int asked = context.geometry.depth;
  plan.depth = asked == 0 ? 16 : (asked >= 32 ? 32 : (asked >= 16 ? 16 : 8));
  while (plan.depth > 8 && room_for(p, context.device, plan.columns, plan.depth) < 8) plan.depth /= 2;
  const int most = room_for(p, context.device, plan.columns, plan.depth);
  plan.shape = walk_shape(p, context, plan.columns, plan.lanes, most);
  plan.shape.launch.shared_bytes += static_cast<std::size_t>(plan.shape.launch.threads / 32 * kSlotBytes * plan.depth);
  return plan;
}

std::string refuse(const Params& p, const Device& device) {
  if (std::string reason = refuse_common(p); !reason.empty()) return reason;
  if (!rows_aligned(p)) return "ring copies rows in 16-byte pieces; " + unaligned_row(p) + " needs direct";
  if (quantizes(p)) return "ring saves raw and bf16 snapshots; fp8 and int4 need direct, cluster or all_slices";
  if (room_for(p, device, 64, 8) < 1)
    return "ring keeps 64 columns of a chunk's token rows and a ring in shared memory (" +
           std::to_string(token_bytes(p, 64) + 9 * kSlotBytes) + " bytes); this GPU offers " +
           std::to_string(device.shared_memory_per_block);
  return {};
}

template <typename S>
void launch_shape(const Params& p, const LaunchContext& context, const Plan& plan) {
  dispatch_value<8, 16, 32>(plan.depth, [&]<int kDepth>() {
    dispatch_value<Save::none, Save::raw, Save::bf16>(save_of(p.snapshot), [&]<Save kSave>() {
      device::launch(ring_kernel<S, kSave, kDepth>, plan.shape.launch, context, p, plan.shape.cut);
    });
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
    // H200, saving raw: ring against the best other form 712 us to 734 at default, 678 to 853 at small120, 3717 to 3757
    // at flag64, 2068 to 2101 at wide960; but 5934 to 5817 at flagship, whose token rows leave no room for rings.
    .suits = [](const Params& p, const Device&) { return p.dims.head_dim <= 128 || p.dims.chunk <= 128; },
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::write
