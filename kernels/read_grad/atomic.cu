// read_grad, variant `atomic`: the baseline without an order. Every read entry adds q_weight*gr to its gradient row
// with float atomics, in whatever order they arrive (a bf16 row is rounded at every addition); dots as everywhere.
#include <cuda_bf16.h>

#include "kernels/read_grad/lanes.cuh"

namespace sdm::read_grad {
namespace {

using namespace device;

constexpr int kWarps = 8;
constexpr int kUnit = kWalkUnit;

// --- kernels ---------------------------------------------------------------------------------------------------------

__device__ __forceinline__ void add_quad(float* at, const float (&x)[4], int columns) {
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (i < columns) atomicAdd(at + i, x[i]);
}
__device__ __forceinline__ void add_quad(bf16_t* at, const float (&x)[4], int columns) {
  auto* target = reinterpret_cast<__nv_bfloat16*>(at);
  if (columns == 4 && reinterpret_cast<std::uintptr_t>(at) % 4 == 0) {
    atomicAdd(reinterpret_cast<__nv_bfloat162*>(target), __floats2bfloat162_rn(x[0], x[1]));
    atomicAdd(reinterpret_cast<__nv_bfloat162*>(target) + 1, __floats2bfloat162_rn(x[2], x[3]));
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (i < columns) atomicAdd(target + i, __float2bfloat16_rn(x[i]));
}

template <typename T>
__device__ __forceinline__ void load_columns(const T* at, int columns, float (&out)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) out[i] = i < columns ? load_element(at[i]) : 0.0f;
}

/// A warp takes kUnit sorted positions of one (stream, slice).
template <typename G, typename B>
__global__ void __launch_bounds__(kWarps* kLanes) atomic_kernel(const Params p, int units, int slices) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const int positions = p.dims.read_positions();
  const int head_dim = p.dims.head_dim;
  const int owner = static_cast<int>(blockIdx.x) / units;
  const int begin = (static_cast<int>(blockIdx.x) % units * kWarps + warp) * kUnit;
  const std::int64_t chunk = std::int64_t{p.step} * p.dims.streams + owner / slices;
  const ColumnSlice slice = row_slice(head_dim, owner % slices);
  const int columns = quad_columns(slice, lane);
  const int column = slice.begin + 4 * lane;
  float* plane = p.d_qw_planes + (owner % slices * p.dims.chunks() + chunk) * positions;
  wait_for_previous_grid();
  allow_next_grid();
  Record record[kUnit];
  float x[kUnit][4], y[kUnit][4], dots[kUnit];
#pragma unroll
  for (int i = 0; i < kUnit; ++i) record[i] = p.record[chunk * positions + min(begin + i, positions - 1)];
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    const std::int64_t token = chunk * p.dims.chunk + token_of(record[i].payload);
    load_columns(p.d_reading + token * head_dim + column, columns, x[i]);
    load_columns(static_cast<const B*>(p.bank.data) + std::int64_t{record[i].slot} * head_dim + column, columns, y[i]);
  }
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    dots[i] = quad_dot(x[i], y[i]);
#pragma unroll
    for (int j = 0; j < 4; ++j) x[i][j] *= record[i].scale;
    if (begin + i < positions && (record[i].payload & kInvalid) == 0u)
      add_quad(static_cast<G*>(p.grad.data) + std::int64_t{record[i].slot} * head_dim + column, x[i], columns);
  }
  const float sum = transposed_sum<kUnit, Tree::far_first>(dots, lane);
  const int at = begin + summed_value<kUnit, Tree::far_first>(lane);
  if (lane % 8 == 0 && at < positions) {
    const std::uint32_t payload = p.record[chunk * positions + at].payload;
    plane[token_of(payload) * p.dims.reads + entry_of(payload)] = (payload & kInvalid) != 0u ? 0.0f : sum;
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

int units_of(const Params& p) { return ceil_div(p.dims.read_positions(), kWarps * kUnit); }

LaunchShape atomic_shape(const Params& p) {
  return {.grid = dim3(static_cast<unsigned>(p.dims.step_streams() * slice_count(p.dims.head_dim) * units_of(p))),
          .threads = kWarps * kLanes};
}

void launch_atomic(const Params& p, const LaunchContext& context) {
  const auto with = [&]<typename G, typename B>() {
    launch(atomic_kernel<G, B>, atomic_shape(p), context, p, units_of(p), slice_count(p.dims.head_dim));
  };
  if (p.bank.dtype == DType::f32) return with.template operator()<float, float>();
  dispatch_real(p.grad.dtype, [&]<typename G>() { with.template operator()<G, bf16_t>(); });
}

std::string describe_atomic(const Params& p, const LaunchContext&) {
  return device::describe(atomic_shape(p)) + "; " + std::to_string(kUnit) + " entries a warp";
}

}  // namespace

const Variant<Params> atomic{.name = "atomic",
                             .why = "baseline: float atomics, another sum on every run; prices determinism",
                             .guarantee = Guarantee::approximate,
                             .automatic = false,
                             .refuse = refuse_types,
                             .launch = launch_atomic,
                             .describe = describe_atomic};

}  // namespace sdm::read_grad
