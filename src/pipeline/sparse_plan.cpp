#include "pipeline/sparse_plan.h"

#include <algorithm>

#include "backend/executor.h"
#include "pipeline/pick.h"
#include "pipeline/sparse_bind.h"

namespace sdm {
namespace {

/// Calls f(pick, stage, params) for every stage.
template <typename Plan, typename F>
void each(Plan& plan, const SparseBuffers& s, const Registry& r, F&& f) {
  f(plan.group_entries, r.group_entries, bind::group_entries(s));
  f(plan.decay_sums, r.decay_sums, bind::decay_sums(s));
  f(plan.interactions, r.interactions, bind::interactions(s));
  f(plan.solve, r.solve, bind::solve(s));
  f(plan.combine, r.combine, bind::combine(s));
  f(plan.gather, r.gather, bind::gather(s));
  f(plan.mix, r.mix, bind::mix(s));
  f(plan.write, r.write, bind::write(s));
  f(plan.combine_grad, r.combine_grad, bind::combine_grad(s));
  f(plan.gather_grad, r.gather_grad, bind::gather_grad(s));
  f(plan.mix_grad, r.mix_grad, bind::mix_grad(s));
  f(plan.undo, r.undo, bind::undo(s));
  f(plan.read_grad, r.read_grad, bind::read_grad(s));
  f(plan.reduce, r.reduce, bind::reduce(s));
  f(plan.parameter_gradients, r.parameter_gradients, bind::parameter_gradients(s));
}

}  // namespace

SparsePlan make_plan(const std::map<std::string, std::string>& names, const SparseBuffers& buffers,
                     const Device* device, const Registry& stages) {
  SparsePlan plan;
  each(plan, buffers, stages, [&](auto& picked, const auto& stage, const auto& params) {
    if (device)
      picked = pick_variant(stage, names, params, *device);
    else
      picked.stage = &stage;
  });
  return plan;
}

bool in_prepare(std::string_view stage) {
  constexpr std::string_view stages[] = {"group_entries", "decay_sums", "interactions", "solve", "combine"};
  return std::find(std::begin(stages), std::end(stages), stage) != std::end(stages);
}

bool in_forward(std::string_view stage) {
  return in_prepare(stage) || stage == "gather" || stage == "mix" || stage == "write";
}

std::map<std::string, ResolvedVariant> describe(const SparsePlan& plan, const SparseBuffers& buffers,
                                                const LaunchContext& context) {
  std::map<std::string, ResolvedVariant> result;
  const bool forward_alone = buffers.workload.snapshot == SnapshotFormat::none;
  const auto note = [&](const auto& picked, const auto& stage, const auto& params, const LaunchContext& launch) {
    if (!forward_alone || in_forward(stage.name))
      result[std::string(stage.name)] = resolved_variant(picked, params, launch);
  };
  each(plan, buffers, registry(),
       [&](const auto& picked, const auto& stage, const auto& params) { note(picked, stage, params, context); });
  const int streams = buffers.dims.streams, branches = branch_count(streams, context.branches);
  if (branches == 1) return result;
  const LaunchContext branch = on_branch(context, branches);
  each(plan, of_streams(buffers, 0, streams / branches), registry(),
       [&](const auto& picked, const auto& stage, const auto& params) {
         if constexpr (requires { params.step; }) note(picked, stage, params, branch);
       });
  return result;
}

}  // namespace sdm
