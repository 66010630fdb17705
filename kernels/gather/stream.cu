#include "kernels/common/row_stream.cuh"
#include "kernels/gather/row_gather.cuh"

namespace sdm::gather {

// --- kernels ---------------------------------------------------------------------------------------------------------

namespace {

using namespace device_rows;

struct StreamArgs {
  Args rows;
  StreamWalk walk;
};

/// A warp's unit: operand, token and slice.
template <typename T>
struct SumJob {
  const Args& args;
  int unit;
  RowPlace at;
  RowColumns columns;

  __device__ SumJob(const Args& all, int first)
      : args(all), unit(first), at(place(first)), columns(columns_of<T>(all.bank, all.plan, at)) {}
  __device__ int operand(int u) const { return u >= args.plan.units ? 1 : 0; }
  __device__ const EntrySource& source(int u) const { return args.source[operand(u)]; }
  __device__ RowPlace place(int u) const {
    return place_of_unit(args.plan, u - operand(u) * args.plan.units, args.plan.units, static_cast<int>(threadIdx.x));
  }
  __device__ void take(int u) { unit = u, at = place(u); }
  __device__ void row(int, int, const uint4&, const float (&)[kVec<T>], int) {}
  __device__ void end(float (&acc)[kVec<T>]) { finish_part(args.plan, at, 0, nullptr, args.out[operand(unit)], acc); }
};

/// grid: warps of units, those of both operands.
template <typename T>
__global__ void __launch_bounds__(kStreamThreads, kStreamCtas) gather_stream(const __grid_constant__ StreamArgs args) {
  extern __shared__ uint4 memory[];
  const int warp = static_cast<int>(blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
  SumJob<T> job(args.rows, warp);
  fold_units<RowVector<T, true>>(args.rows.plan, args.walk, memory + threadIdx.x, job);
}

// --- launchers -------------------------------------------------------------------------------------------------------

RowPlan plan_for(const Params& p, const LaunchContext& context) {
  const std::int32_t entries = p.dims.writes + (p.inter ? p.dims.reads : 0);
  return stream_plan(p.dims, p.bank.dtype, p.step, p.groups, entries, context.geometry.warps);
}

void launch_stream(const Params& p, const LaunchContext& context) {
  const RowPlan plan = plan_for(p, context);
  const StreamArgs args{args_of(p, plan), stream_walk(plan, operands(p), context)};
  dispatch_real(p.bank.dtype,
                [&]<typename T>() { launch(gather_stream<T>, stream_shape(plan, args.walk, context), context, args); });
}

std::string refuse(const Params& p, const Device& device) {
  if (p.stash.format != SnapshotFormat::none) return "rows are copied by the variant rows alone";
  const std::string reason = refuse_ring(p.dims, p.bank.dtype, p.groups, kStreamBytes, device);
  return reason.empty() ? refuse_rows(p, device) : reason;
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  return describe_stream(plan_for(p, context), operands(p), context);
}

}  // namespace

/// Not automatic: H200, flag64, the stage alone 2,217 us to 2,140, but the forward in plain launches 7,280 to 7,460 and
/// in dependent ones 6,795 to 7,021; probably because warps with a fixed share of the rows cannot make up for DRAM that
/// is busy writing back what the write before left (not profiled).
constinit const Variant<Params> stream{
    .name = "stream",
    .why =
        "rows of a warp's tokens and operands as one stream through shared memory: faster than `rows` alone, not in a "
        "pass",
    .guarantee = Guarantee::exact,
    .automatic = false,
    .refuse = refuse,
    .launch = launch_stream,
    .describe = describe_launch,
};

}  // namespace sdm::gather
