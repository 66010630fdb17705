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

/// A warp's unit: operand, token and slice. The reads come first: write finds in L2 what was read last.
template <typename T>
struct SumJob {
  const Args& args;
  int unit;
  RowPlace at;
  RowColumns columns;
  std::uint64_t writes_policy, reads_policy;

  __device__ SumJob(const Args& all, int first)
      : args(all),
        unit(first),
        at(place(first)),
        columns(columns_of<T>(all.bank, all.plan, at)),
        writes_policy(policy_of(all.stay[0])),
        reads_policy(policy_of(all.stay[1])) {}
  __device__ bool behind(int u) const { return u >= args.plan.units; }
  __device__ int operand(int u) const { return args.operands == 2 && !behind(u) ? 1 : 0; }
  __device__ std::uint64_t policy(int u) const { return operand(u) == 0 ? writes_policy : reads_policy; }
  __device__ const EntrySource& source(int u) const { return args.source[operand(u)]; }
  __device__ RowPlace place(int u) const {
    return place_of_unit(args.plan, behind(u) ? u - args.plan.units : u, args.plan.units,
                         static_cast<int>(threadIdx.x));
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
  const StreamArgs args{args_of(p, plan, context.device), stream_walk(plan, operands(p), context)};
  dispatch_real(p.bank.dtype,
                [&]<typename T>() { launch(gather_stream<T>, stream_shape(plan, args.walk, context), context, args); });
}

std::string refuse(const Params& p, const Device& device) {
  if (p.stash.format != SnapshotFormat::none) return "rows are copied by the variant rows alone";
  const std::string reason = refuse_ring(p.dims, p.bank.dtype, p.groups, kStreamBytes, device);
  return reason.empty() ? refuse_rows(p, device) : reason;
}

/// Where a step's rows are more than L2 holds and some of them stay there, and tokens have whole blocks of entries.
/// With fewer rows `rows` is faster (H200, wide960: 1,111 us, 1,134 by `stream`).
bool suits(const Params& p, const Device& device) {
  const bool whole = p.dims.writes % kStreamLanes == 0 && (!p.inter || p.dims.reads % kStreamLanes == 0);
  const bool returning = plan_for(p, {}).slice_major;
  const GatherStays stays = gather_stays(p.dims, p.bank.dtype, returning, p.write_quantizes, device.l2_bytes);
  return whole && stays.writes == Stay::quarter;
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  return describe_stream(plan_for(p, context), operands(p), context);
}

}  // namespace

constinit const Variant<Params> stream{
    .name = "stream",
    .why = "rows of a warp's tokens, first of the reads, then of the writes, as one stream through shared memory",
    .guarantee = Guarantee::exact,
    .suits = suits,
    .refuse = refuse,
    .launch = launch_stream,
    .describe = describe_launch,
};

}  // namespace sdm::gather
