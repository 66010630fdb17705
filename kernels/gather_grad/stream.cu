#include "kernels/common/row_stream.cuh"
#include "kernels/gather_grad/row_grad.cuh"

namespace sdm::gather_grad {

// --- kernels ---------------------------------------------------------------------------------------------------------

namespace {

using namespace device_rows;

struct StreamArgs {
  Args rows;
  StreamWalk walk;
};

/// A warp's unit, token and slice, with its dots.
template <typename T>
struct DotJob {
  using Row = RowVector<T, true>;
  const Args& args;
  int unit;
  RowPlace& at;  ///< outside of the job: it is referred to by `dots`, and must stay in registers
  RowColumns columns;
  DotVisitor<Row> dots;

  __device__ DotJob(const Args& all, int first, RowPlace& place_of_first)
      : args(all),
        unit(first),
        at(place_of_first),
        columns(columns_of<T>(all.grad, all.plan, at)),
        dots(dots_of<Row>(all, at, columns)) {}
  __device__ std::uint64_t policy(int) const { return policy_of(kGradientStay); }
  __device__ const EntrySource& source(int) const { return args.source; }
  __device__ RowPlace place(int u) const {
    return place_of_unit(args.plan, u, args.plan.units, static_cast<int>(threadIdx.x));
  }
  __device__ void take(int u) {
    unit = u, at = place(u);
    const DotVisitor<Row> fresh = dots_of<Row>(args, at, columns);
    dots.out = fresh.out;
#pragma unroll
    for (int c = 0; c < Row::kElements; ++c) dots.x[c] = fresh.x[c];
  }
  __device__ void row(int u, int holder, const uint4& raw, const float (&y)[Row::kElements], int base) {
    dots.row(u, holder, raw, y, base);
  }
  __device__ void end(float (&acc)[Row::kElements]) { finish_part(args.plan, at, 0, nullptr, args.d_dv_w, acc); }
};

/// grid: warps of units.
template <typename T>
__global__ void __launch_bounds__(kStreamThreads, kStreamCtas)
    gather_grad_stream(const __grid_constant__ StreamArgs args) {
  extern __shared__ uint4 memory[];
  const int warp = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  RowPlace at = place_of_unit(args.rows.plan, warp, args.rows.plan.units, static_cast<int>(threadIdx.x));
  DotJob<T> job(args.rows, warp, at);
  fold_units<RowVector<T, true>>(args.rows.plan, args.walk, memory + threadIdx.x, job);
}

// --- launchers -------------------------------------------------------------------------------------------------------

RowPlan plan_for(const Params& p, const LaunchContext& context) {
  return stream_plan(p.dims, p.grad.dtype, p.step, p.groups, p.dims.writes, context.geometry.warps);
}

void launch_stream(const Params& p, const LaunchContext& context) {
  const RowPlan plan = plan_for(p, context);
  const StreamArgs args{args_of(p, plan), stream_walk(plan, 1, context)};
  dispatch_real(p.grad.dtype, [&]<typename T>() {
    launch(gather_grad_stream<T>, stream_shape(plan, args.walk, context), context, args);
  });
}

std::string refuse(const Params& p, const Device& device) {
  if (p.copies)
    return "gradient rows are copied for undo by rows and rows_r64 alone; set workload.gradient_copy to false";
  const std::string reason = refuse_ring(p.dims, p.grad.dtype, p.groups, kStreamBytes, device);
  return reason.empty() ? refuse_rows(p, device) : reason;
}

/// Where rows do not return, and tokens have whole blocks of entries.
bool suits(const Params& p, const Device&) { return p.dims.writes % kStreamLanes == 0 && !plan_for(p, {}).slice_major; }

std::string describe_launch(const Params& p, const LaunchContext& context) {
  return describe_stream(plan_for(p, context), 1, context);
}

}  // namespace

constinit const Variant<Params> stream{
    .name = "stream",
    .why = "rows of a warp's tokens as one stream through shared memory, for steps that fill the GPU with warps",
    .guarantee = Guarantee::exact,
    .suits = suits,
    .refuse = refuse,
    .launch = launch_stream,
    .describe = describe_launch,
};

}  // namespace sdm::gather_grad
