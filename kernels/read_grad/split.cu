// read_grad, variant `split`: two launches. Scatter walks the sorted reads (lanes.cuh, without dots); dots go in token
// order: a warp holds one token's gr quads and takes a run of its bank rows, 8 in flight.
#include "kernels/read_grad/lanes.cuh"

namespace sdm::read_grad {
namespace {

using namespace device;

constexpr int kRowsInFlight = 8;

/// A warp takes `tokens` tokens of one (stream, slice), `run` entries of each.
struct DotShape {
  int warps = 8, tokens = 1, run = 32;
  int runs = 1, token_blocks = 1, slices = 1;
  std::int64_t items = 0;
};

// --- kernels ---------------------------------------------------------------------------------------------------------

template <bool kVector, typename T>
__device__ __forceinline__ void load_quad(const T* at, int columns, float (&out)[4]) {
  if constexpr (kVector) {
    Quad<T> bits = {};
    if (columns > 0) bits = *reinterpret_cast<const Quad<T>*>(at);
    widen_quad(bits, out);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) out[i] = i < columns ? load_element(at[i]) : 0.0f;
  }
}

/// The dots of entries [0, count) (count <= 32) of one token; lane i holds the row index of entry i.
template <typename B, bool kVector>
__device__ __forceinline__ void dot_run(const float (&x)[4], const B* bank, std::int64_t index, int count, int head_dim,
                                        int columns, int lane, float* out) {
  for (int base = 0; base < count; base += kRowsInFlight) {
    float y[kRowsInFlight][4];
#pragma unroll
    for (int i = 0; i < kRowsInFlight; ++i) {  // past the last entry its row is read again, for nothing
      const std::int64_t row = __shfl_sync(0xffffffffu, index, min(base + i, count - 1));
      load_quad<kVector>(bank + row * head_dim, columns, y[i]);
    }
    float dots[kRowsInFlight];
#pragma unroll
    for (int i = 0; i < kRowsInFlight; ++i) dots[i] = quad_dot(x, y[i]);
    const float sum = transposed_sum<kRowsInFlight, Tree::far_first>(dots, lane);
    const int entry = base + summed_value<kRowsInFlight, Tree::far_first>(lane);
    if (lane % 4 == 0 && entry < count) out[entry] = sum;
  }
}

template <typename Index, typename B, bool kVector>
__global__ void dot_kernel(const Params p, const DotShape shape) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  std::int64_t item = std::int64_t{blockIdx.x} * shape.warps + static_cast<int>(threadIdx.x) / kLanes;
  if (item >= shape.items) return;
  const int begin = static_cast<int>(item % shape.runs) * shape.run;
  item /= shape.runs;
  const int token_begin = static_cast<int>(item % shape.token_blocks) * shape.tokens;
  item /= shape.token_blocks;
  const int slice_index = static_cast<int>(item % shape.slices);
  const std::int64_t chunk = std::int64_t{p.step} * p.dims.streams + item / shape.slices;
  const ColumnSlice slice = row_slice(p.dims.head_dim, slice_index);
  const int columns = quad_columns(slice, lane);
  const int column = slice.begin + 4 * lane;
  const B* bank = static_cast<const B*>(p.bank.data) + column;
  const int count = min(shape.run, p.dims.reads - begin);
  const std::int64_t plane = slice_index * p.dims.chunks() * p.dims.read_positions();
  wait_for_previous_grid();
  allow_next_grid();
  for (int token = token_begin; token < min(token_begin + shape.tokens, p.dims.chunk); ++token) {
    const std::int64_t row = chunk * p.dims.chunk + token;
    float* out = p.d_qw_planes + plane + row * p.dims.reads + begin;
    if (token >= p.dims.valid_tokens(p.step)) {
      if (lane < count) out[lane] = 0.0f;
      continue;
    }
    std::int64_t index = 0;
    if (lane < count) index = static_cast<const Index*>(p.q_idx.data)[row * p.dims.reads + begin + lane];
    float x[4];
    load_quad<kVector>(p.d_reading + row * p.dims.head_dim + column, columns, x);
    dot_run<B, kVector>(x, bank, index, count, p.dims.head_dim, columns, lane, out);
  }
}

// --- launchers -------------------------------------------------------------------------------------------------------

/// Runs of 32, 16 or 8 entries: the longest that gives every multiprocessor 16 warps.
DotShape dot_shape(const Params& p, const LaunchContext& context) {
  DotShape shape{.slices = slice_count(p.dims.head_dim)};
  if (context.geometry.warps > 0) shape.warps = std::clamp(context.geometry.warps, 1, 32);
  if (context.geometry.tile > 0) shape.tokens = std::min(context.geometry.tile, p.dims.chunk);
  shape.token_blocks = ceil_div(p.dims.chunk, shape.tokens);
  for (shape.run = 32;; shape.run /= 2) {
    shape.runs = ceil_div(p.dims.reads, shape.run);
    shape.items = std::int64_t{p.dims.step_streams()} * shape.slices * shape.token_blocks * shape.runs;
    if (shape.run == kRowsInFlight || shape.items >= 16 * context.device.multiprocessors) return shape;
  }
}

LaunchShape dot_launch(const DotShape& shape) {
  return {.grid = dim3(static_cast<unsigned>(ceil_div(shape.items, shape.warps))), .threads = shape.warps * kLanes};
}

void launch_split(const Params& p, const LaunchContext& context) {
  dispatch_real(p.grad.dtype, [&]<typename G>() {
    dispatch_value<false, true>(p.dims.head_dim % 4 == 0, [&]<bool kVector>() {  // the bank's type plays no part
      const WalkShape shape = walk_shape(p, kReadSlotBytes<G, G, false>, 1, false, context);
      launch(walk_kernel<ReadLanes<G, G, kVector, false>, kVector, false, false>, launch_shape(p, shape), context, p,
             shape);
    });
  });
  const DotShape shape = dot_shape(p, context);
  dispatch_index(p.q_idx.dtype, [&]<typename Index>() {
    dispatch_real(p.bank.dtype, [&]<typename B>() {
      dispatch_value<false, true>(p.dims.head_dim % 4 == 0, [&]<bool kVector>() {
        launch(dot_kernel<Index, B, kVector>, dot_launch(shape), context, p, shape);
      });
    });
  });
}

std::string describe_split(const Params& p, const LaunchContext& context) {
  const int slot_bytes =
      p.grad.dtype == DType::f32 ? kReadSlotBytes<float, float, false> : kReadSlotBytes<bf16_t, bf16_t, false>;
  const WalkShape scatter = walk_shape(p, slot_bytes, 1, false, context);
  const DotShape dots = dot_shape(p, context);
  return "scatter: " + device::describe(launch_shape(p, scatter)) + "; " + sdm::describe(scatter) +
         "; dots: " + device::describe(dot_launch(dots)) + "; " + std::to_string(dots.tokens) + " tokens a warp, " +
         std::to_string(dots.run) + " entries a run, " + std::to_string(kRowsInFlight) + " rows in flight";
}

}  // namespace

const Variant<Params> split{.name = "split",
                            .why = "scatter in sorted order, then dots in token order: two launches",
                            .refuse = refuse_types,
                            .launch = launch_split,
                            .describe = describe_split};

}  // namespace sdm::read_grad
