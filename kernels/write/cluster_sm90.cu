// write, variant `cluster`: quantized snapshots of rows that span column blocks. The CTAs of all blocks of the same
// positions form a cluster; they walk in step, and for every batch each warp sends the maxima of its slices of the rows
// to its twins in the other CTAs, through distributed shared memory. Warps pair up with warps: no CTA waits for a CTA.
#include "kernels/write/groups.cuh"

namespace sdm::write {
namespace {

// --- kernels ---------------------------------------------------------------------------------------------------------

constexpr int kDepth = 8;
constexpr int kMostCtas = 16;
static_assert(kDepth == 8, "two 16-byte messages a lane group and peer");

/// The same shared-memory address in another CTA of the cluster.
__device__ __forceinline__ std::uint32_t at_peer(std::uint32_t address, int peer) {
  std::uint32_t remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(peer));
  return remote;
}
/// Special registers: read anew where they are used, they cost no register between.
__device__ __forceinline__ int cluster_rank() {
  int rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
__device__ __forceinline__ int cluster_size() {
  int size;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
  return size;
}
__device__ __forceinline__ void cluster_barrier() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

/// Bytes of a warp: two buffers of [ctas][lane groups][kDepth] maxima and two transaction barriers.
__host__ __device__ constexpr int buffer_words(int ctas, int groups) { return ctas * groups * kDepth; }
__host__ __device__ constexpr int exchange_bytes(int ctas, int groups) {
  return 2 * 4 * buffer_words(ctas, groups) + 16;
}

/// One warp's side of the exchange. Calls alternate between two buffers: a twin that is one call ahead writes into the
/// other buffer, and it cannot be two ahead, since it needs this warp's maxima of the call between.
template <typename S>
struct ClusterExchange {
  std::uint32_t area;  // shared address: two barriers, then [2][ctas][groups][kDepth] maxima
  int call = 0;

  static constexpr int kGroups = 32 / S::kLanes;

  /// Lane l holds and gets the maximum of row l % 8 of its lane group.
  __device__ __forceinline__ std::uint32_t operator()(std::uint32_t amax) {
    const int lane = static_cast<int>(threadIdx.x & 31);
    const int ctas = cluster_size(), rank = cluster_rank();
    const std::uint32_t arrived = area + 8 * (call & 1);
    const std::uint32_t rows = area + 16 + 4 * ((call & 1) * buffer_words(ctas, kGroups) + lane / S::kLanes * kDepth);
    __syncwarp();  // every lane has read the previous call's maxima
    if (lane == 0) device::arrive_expecting(arrived, 4 * buffer_words(ctas, kGroups));
    const int half = 4 * (lane & 1);  // even lanes send rows 0..3, odd ones rows 4..7; a pair of lanes serves a peer
    const std::uint32_t word0 = __shfl_sync(~0u, amax, half, kDepth), word1 = __shfl_sync(~0u, amax, half + 1, kDepth);
    const std::uint32_t word2 = __shfl_sync(~0u, amax, half + 2, kDepth);
    const std::uint32_t word3 = __shfl_sync(~0u, amax, half + 3, kDepth);
    const std::uint32_t to = rows + 4 * (rank * kGroups * kDepth + half);
#pragma unroll 1
    for (int peer = lane % S::kLanes / 2; peer < ctas; peer += S::kLanes / 2)
      asm volatile(
          "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
              at_peer(to, peer)),
          "r"(word0), "r"(word1), "r"(word2), "r"(word3), "r"(at_peer(arrived, peer))
          : "memory");
    wait(arrived, (call >> 1) & 1);
    ++call;
#pragma unroll 1
    for (int cta = 0; cta < ctas; ++cta) {
      std::uint32_t theirs;
      asm volatile("ld.shared.u32 %0, [%1];" : "=r"(theirs) : "r"(rows + 4 * (cta * kGroups * kDepth + lane % kDepth)));
      amax = max(amax, theirs);
    }
    return amax;
  }

  __device__ __forceinline__ static void wait(std::uint32_t barrier, int parity) {
    std::uint32_t done = 0;
    while (done == 0)
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; "
          "}"
          : "=r"(done)
          : "r"(barrier), "r"(parity)
          : "memory");
  }
};

template <typename S, Save kSave>
__global__ void __launch_bounds__(32 * kMaxWarps, 1)
    cluster_kernel(const __grid_constant__ Params p, const __grid_constant__ Cut cut) {
  extern __shared__ float4 shared[];
  constexpr int kGroups = 32 / S::kLanes;
  auto* tokens = reinterpret_cast<float*>(shared);
  const int ctas = (p.dims.head_dim + S::kColumns - 1) / S::kColumns;
  const int warp = static_cast<int>(threadIdx.x) / 32, warps = static_cast<int>(blockDim.x) / 32;
  auto* tables = reinterpret_cast<Record*>(tokens + token_floats<S>(p.dims.chunk));
  const auto* area =
      reinterpret_cast<const unsigned char*>(tables + kTableRecords * warps) + warp * exchange_bytes(ctas, kGroups);
  const ClusterExchange<S> exchange{device::shared_address(area)};
  if (threadIdx.x % 32 == 0) {
    for (int i = 0; i < 2; ++i) device::init_barrier(exchange.area + 8 * i, 1);
    device::fence_barrier_init();
  }
  cluster_barrier();
  walk(p, cut, tokens, GroupBatch<S, kSave, kDepth, ClusterExchange<S>>{exchange});
  cluster_barrier();  // a CTA's shared memory lives until its twins have sent their last maxima
}

// --- launchers -------------------------------------------------------------------------------------------------------

struct Form {
  int columns, lanes, ctas;
  std::size_t shared_bytes;  // with kMaxWarps warps
};

std::size_t exchange_total(const Form& f, int warps) {
  return static_cast<std::size_t>(warps) * static_cast<std::size_t>(exchange_bytes(f.ctas, 32 / f.lanes));
}
Form make_form(const Params& p, int columns) {
  Form f{columns, columns * static_cast<int>(size_of(p.bank.dtype)) / 16, device::ceil_div(p.dims.head_dim, columns),
         0};
  f.shared_bytes = token_bytes(p, columns) + kTableBytes * kMaxWarps + exchange_total(f, kMaxWarps);
  return f;
}
/// 256 columns a CTA (bf16) where token rows leave room for two CTAs an SM, or where 16 CTAs of 128 do not cover a row;
/// else 128.
Form form_of(const Params& p, const Device& device) {
  const Form wide = make_form(p, 256), narrow = make_form(p, 128);
  const bool can_be_wide = p.bank.dtype == DType::bf16 && wide.shared_bytes <= device.shared_memory_per_block;
  const bool roomy = 2 * wide.shared_bytes <= device.shared_memory_per_multiprocessor;
  return can_be_wide && (roomy || narrow.ctas > kMostCtas) ? wide : narrow;
}

std::string refuse(const Params& p, const Device& device) {
  if (std::string reason = refuse_common(p); !reason.empty()) return reason;
  if (device.compute_capability != 90 || device.force_portable)
    return "cluster is built for compute capability 9.0 (thread-block clusters); all_slices runs on any GPU";
  if (!quantizes(p))
    return "cluster is for fp8 and int4 snapshots, the only ones whose column slices depend on each other";
  if (!rows_aligned(p)) return "cluster takes rows of a multiple of 16 bytes; all_slices takes any";
  const Form form = form_of(p, device);
  if (form.ctas < 2) return "cluster exchanges maxima between column blocks; a row of one block needs none (direct)";
  if (form.ctas > kMostCtas)
    return "cluster covers a row with at most 16 CTAs of " + std::to_string(form.columns) + " columns; a head dim of " +
           std::to_string(p.dims.head_dim) + " needs all_slices";
  if (form.shared_bytes > device.shared_memory_per_block)
    return "cluster keeps " + std::to_string(form.columns) + " columns of a chunk's token rows in shared memory (" +
           std::to_string(form.shared_bytes) + " bytes with the exchange); this GPU offers " +
           std::to_string(device.shared_memory_per_block);
  return {};
}

/// Geometry counts only SMs that clusters of this size can occupy at once.
template <typename S, Save kSave>
WalkShape shape_of(const Params& p, const LaunchContext& context, const Form& form) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(form.ctas));
  config.blockDim = dim3(32 * kMaxWarps);
  config.dynamicSmemBytes = form.shared_bytes;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {static_cast<unsigned>(form.ctas), 1, 1};
  config.attrs = &attribute;
  config.numAttrs = 1;
  const auto* kernel = reinterpret_cast<const void*>(cluster_kernel<S, kSave>);
  cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(form.shared_bytes));
  cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  int clusters = 0;
  LaunchContext seen = context;
  if (cudaOccupancyMaxActiveClusters(&clusters, cluster_kernel<S, kSave>, &config) == cudaSuccess && clusters > 0)
    seen.device.multiprocessors = clusters * form.ctas;
  WalkShape shape = walk_shape(p, seen, form.columns, form.lanes, kDepth);
  shape.launch.shared_bytes += exchange_total(form, shape.launch.threads / 32);
  shape.launch.cluster = form.ctas;
  return shape;
}

/// Calls body.template operator()<Shape, kSave>() for the form's row shape and the snapshot's format.
template <typename Body>
void dispatch_form(const Params& p, const Form& form, Body&& body) {
  dispatch_value<Save::fp8, Save::int4>(save_of(p.snapshot), [&]<Save kSave>() {
    if (p.bank.dtype == DType::f32) return body.template operator()<RowShape<float, 32, true>, kSave>();
    if (form.columns == 256) return body.template operator()<RowShape<bf16_t, 32, true>, kSave>();
    body.template operator()<RowShape<bf16_t, 16, true>, kSave>();
  });
}

void launch(const Params& p, const LaunchContext& context) {
  const Form form = form_of(p, context.device);
  dispatch_form(p, form, [&]<typename S, Save kSave>() {
    const WalkShape shape = shape_of<S, kSave>(p, context, form);
    device::launch(cluster_kernel<S, kSave>, shape.launch, context, p, shape.cut);
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const Form form = form_of(p, context.device);
  std::string text;
  dispatch_form(p, form, [&]<typename S, Save kSave>() {
    text = describe(shape_of<S, kSave>(p, context, form), form.columns, form.lanes, kDepth);
  });
  return text;
}

}  // namespace

const Variant<Params> cluster{
    .name = "cluster",
    .why = "fp8 and int4 rows wider than a column block: row maxima exchanged through distributed shared memory",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::write
