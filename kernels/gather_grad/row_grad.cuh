#pragma once
// gather_grad by rows: the kernel and launcher behind the variants `rows` and `rows_r64`; `ring` shares the dots.
#include "kernels/common/row_stash.cuh"
#include "kernels/gather_grad/gather_grad.h"

namespace sdm::gather_grad::device_rows {

using namespace sdm::device;

// --- kernels ---------------------------------------------------------------------------------------------------------

struct Args {
  RowPlan plan;
  const void* grad;
  EntrySource source;
  const float* delta_v;     ///< [P*C, D] of the step
  float* d_dv_w;            ///< [P*C, D] of the step
  float* d_ww;              ///< plane 0, moved to the step's first entry
  std::int64_t plane_size;  ///< N*C*W
  std::int32_t early_ctas;
  StashTarget copy;  ///< of the rows, for undo
};

/// Sums kCount values over the lanes of a row group, each in the tree that pairs lanes at distance 1, 2, 4, ..: while
/// values are left to share out, a pair of lanes splits them, so a lane ends with the sum of value reversed(lane) and
/// kCount values cost kCount - 1 + log2(lanes/kCount) shuffles instead of kCount*log2(lanes). Addition commutes, so
/// which lane adds does not matter to the bits. kCount: a power of two up to 8, hence at most `lanes`.
template <int kCount>
__device__ __forceinline__ float tree_sums(float (&value)[kCount], int lane, int lanes) {
  int distance = 1;
#pragma unroll
  for (int left = kCount / 2; left >= 1; left /= 2, distance *= 2) {
    const bool upper = (lane & distance) != 0;
#pragma unroll
    for (int j = 0; j < left; ++j) {
      const float give = upper ? value[j] : value[j + left];
      const float keep = upper ? value[j + left] : value[j];
      value[j] = keep + __shfl_xor_sync(kWholeWarp, give, distance);
    }
  }
  for (; distance < lanes; distance *= 2) value[0] += __shfl_xor_sync(kWholeWarp, value[0], distance);
  return value[0];
}
/// The value whose sum a lane holds: the low log2(kCount) bits of the lane, reversed.
template <int kCount>
__device__ __forceinline__ int reversed(int lane) {
  constexpr int kBits = kCount == 8 ? 3 : (kCount == 4 ? 2 : 1);
  return static_cast<int>(__brev(static_cast<unsigned>(lane) << (32 - kBits)));
}

/// Dots of delta_v's columns, held by the lanes, with the rows that pass by.
template <typename Row>
struct DotVisitor {
  static constexpr int kDots = 8;
  const RowPlan& plan;
  const RowPlace& place;
  float* out;  ///< the plane of this slice, moved to the token's first entry
  std::int32_t entries;
  float x[Row::kElements];
  float dot[kDots];

  __device__ void hold(int) {}
  /// vec partial = x0*y0, then fma ascending; +0 past the row, for missing entries and for padding tokens.
  __device__ void row(int u, int holder, const typename Row::Raw&, const float (&y)[Row::kElements], int base) {
    float sum = x[0] * y[0];
#pragma unroll
    for (int c = 1; c < Row::kElements; ++c) sum = fma_rn(x[c], y[c], sum);
    dot[u % kDots] = sum;
    if (u % kDots == kDots - 1) store(base + ((holder - (kDots - 1)) << plan.group_bits));
  }

 private:
  /// kDots dots are complete, those of the entries from `first` on: kDots lanes of the row group store one each.
  __device__ void store(int first) {
    const float sum = tree_sums(dot, place.lane, plan.lanes());
    const int entry = first + (reversed<kDots>(place.lane) << plan.group_bits);
    if (place.lane < kDots && place.owned && entry < entries) out[entry] = sum;
  }
};

template <int kElements>
__device__ __forceinline__ void take_columns(const float* p, bool on, float (&x)[kElements]) {
  if constexpr (kElements == 1) {
    x[0] = on ? *p : 0.0f;
  } else {
#pragma unroll
    for (int q = 0; q < kElements / 4; ++q) {
      const float4 v = on ? reinterpret_cast<const float4*>(p)[q] : float4{0.0f, 0.0f, 0.0f, 0.0f};
      x[4 * q] = v.x, x[4 * q + 1] = v.y, x[4 * q + 2] = v.z, x[4 * q + 3] = v.w;
    }
  }
}

/// The visitor of a row group, with its columns of delta_v.
template <typename Row>
__device__ __forceinline__ DotVisitor<Row> dots_of(const Args& args, const RowPlace& at, const RowColumns& columns) {
  float* out = args.d_ww + at.slice * args.plane_size + wide_product(at.token, args.source.entries);
  DotVisitor<Row> visitor{args.plan, at, out, args.source.entries, {}, {}};
  take_columns(args.delta_v + wide_product(at.token, args.plan.head_dim) + at.column, at.valid && columns.inside,
               visitor.x);
  return visitor;
}

/// The dots and a copy of the rows. Beside and not within the dots: an unused copy in there changed how registers were
/// given out (H200, f32_128: 525 us in place of 360).
template <typename Row>
struct CopyingDots {
  DotVisitor<Row> dots;
  StashVisitor<Row, true> copy;

  __device__ void hold(int entry) { copy.hold(entry); }
  __device__ void row(int u, int holder, const typename Row::Raw& raw, const float (&y)[Row::kElements], int base) {
    copy.row(u, holder, raw, y, base);
    dots.row(u, holder, raw, y, base);
  }
};

template <typename Row, bool kCopy>
__device__ __forceinline__ auto visitor_of(const Args& args, const RowPlace& at, const RowColumns& columns) {
  if constexpr (kCopy) {
    char* base = args.copy.rows + at.column * static_cast<std::int64_t>(sizeof(typename Row::Raw) / Row::kElements);
    return CopyingDots<Row>{dots_of<Row>(args, at, columns), {args.copy, args.plan, at, columns, base, true}};
  } else {
    return dots_of<Row>(args, at, columns);
  }
}

/// grid: CTAs of units. 8 rows in flight take 64 registers and leave 1024 threads to an SM, 16 rows 128 and 512:
/// numbers of CTAs that a grid fills evenly. With 80 registers, room for 768, default took 299 us in place of 274.
template <typename T, bool kWhole, int kDepth, bool kCopy>
__global__ void __launch_bounds__(kMaxRowThreads, kDepth > 8 ? 2 : (kCopy ? 3 : 4))
    gather_grad_rows(const __grid_constant__ Args args) {
  using Row = RowVector<T, kWhole>;
  extern __shared__ float4 shared[];
  float* parts = reinterpret_cast<float*>(shared);
  const RowPlan& plan = args.plan;
  const RowPlace at = place_of(plan, static_cast<int>(blockIdx.x), static_cast<int>(threadIdx.x));
  const RowColumns columns = columns_of<T>(args.grad, plan, at);
  auto visitor = visitor_of<Row, kCopy>(args, at, columns);
  const std::int32_t early = early_rows(args.early_ctas);
  for (int first = 0; first < plan.groups(); first += plan.parallel()) {
    float acc[Row::kElements] = {};
    fold_part<Row, kDepth>(plan, at, args.source, first + at.part, columns, policy_of(kGradientStay), visitor, acc,
                           TakeTurn{}, first == 0 ? early : 0);
    finish_part(plan, at, first + at.part, parts, args.d_dv_w, acc);
  }
  total_parts<Row::kElements>(plan, at, parts, args.d_dv_w);
}

// --- launchers -------------------------------------------------------------------------------------------------------

inline RowPlan plan_of(const Params& p, const LaunchContext& context) {
  return make_row_plan(p.dims, p.grad.dtype, p.step, p.groups, p.dims.writes, context.geometry.warps);
}

/// kMost: of the variant.
template <int kMost>
int depth_of(const Params& p, const RowPlan& plan, const LaunchContext& context) {
  return kMost == 8 ? 8 : rows_in_flight(plan, p.dims.writes, context);
}

inline Args args_of(const Params& p, const RowPlan& plan) {
  const Dims& d = p.dims;
  const std::int64_t token = std::int64_t{p.step} * d.streams * d.chunk;
  Args args{};
  args.plan = plan;
  args.grad = p.grad.data;
  args.source = entries_of(p.k_idx, {const_cast<float*>(p.write_weight), DType::f32}, d.writes, d, p.step, p.step - 1);
  args.delta_v = p.delta_v + token * d.head_dim;
  args.d_dv_w = p.d_dv_w + token * d.head_dim;
  args.d_ww = p.d_ww_planes + token * d.writes;
  args.plane_size = d.chunks() * d.write_positions();
  if (p.copies) {
    const std::int64_t row_bytes = d.head_dim * static_cast<std::int64_t>(size_of(p.grad.dtype));
    args.copy =
        stash_at({static_cast<char*>(p.gradient_rows), p.place, d.writes, d.chunk}, p.step, d.streams, row_bytes);
  }
  return args;
}

template <int kMost>
void launch_rows(const Params& p, const LaunchContext& context) {
  const RowPlan plan = plan_of(p, context);
  const LaunchShape shape = shape_of(plan, 1);
  Args args = args_of(p, plan);
  args.early_ctas = early_ctas(context, kEarlyThreads / plan.threads);
  dispatch_real(p.grad.dtype, [&]<typename T>() {
    dispatch_value<false, true>(p.copies, [&]<bool kCopy>() {
      if (plan.vec == 1) return launch(gather_grad_rows<T, false, 8, kCopy>, shape, context, args);
      if (depth_of<kMost>(p, plan, context) == 16)
        return launch(gather_grad_rows<T, true, 16, kCopy>, shape, context, args);
      launch(gather_grad_rows<T, true, 8, kCopy>, shape, context, args);
    });
  });
}

inline std::string refuse_rows(const Params& p, const Device&) {
  return refuse_row_plan(p.dims, p.groups, p.dims.writes);
}

template <int kMost>
std::string describe_rows(const Params& p, const LaunchContext& context) {
  const RowPlan plan = plan_of(p, context);
  return device::describe(plan, 1, depth_of<kMost>(p, plan, context));
}

}  // namespace sdm::gather_grad::device_rows
