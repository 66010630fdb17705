#include "pipeline/fused.h"

#include <fmt/format.h>

#include <algorithm>

#include "pipeline/sparse.h"
#include "pipeline/sparse_bind.h"

namespace sdm {
namespace {

fused::Forward bind_forward(const SparseBuffers& s, std::uint32_t* counters) {
  return {bind::gather(s), bind::mix(s), bind::write(s), counters};
}
fused::Backward bind_backward(const SparseBuffers& s, std::uint32_t* counters) {
  return {bind::gather_grad(s), bind::mix_grad(s), bind::undo(s), bind::read_grad(s), counters};
}
bool has_backward(const SparseBuffers& s) { return s.workload.snapshot != SnapshotFormat::none; }

/// Empty, or why the pick's bits would not be the fused kernel's: it is no exact variant of this build.
template <typename Params>
std::string refuse_pick(const StagePick<Params>& pick, const Stage<Params>& own) {
  const auto& known = own.variants;
  if (pick.variant && std::find(known.begin(), known.end(), pick.variant) == known.end())
    return fmt::format("{} runs a variant that is not the tool's own", own.name);
  if (pick.variant && pick.variant->guarantee != Guarantee::exact)
    return fmt::format("{}/{} is {}, not exact; the fused kernel gives the exact bits", own.name, pick.variant->name,
                       name_of(pick.variant->guarantee));
  return "";
}

std::string refuse_picks(const SparsePlan& plan) {
  const Registry& own = registry();
  for (const std::string& reason :
       {refuse_pick(plan.gather, own.gather), refuse_pick(plan.mix, own.mix), refuse_pick(plan.write, own.write),
        refuse_pick(plan.gather_grad, own.gather_grad), refuse_pick(plan.mix_grad, own.mix_grad),
        refuse_pick(plan.undo, own.undo), refuse_pick(plan.read_grad, own.read_grad)})
    if (!reason.empty()) return reason;
  return "";
}

template <typename Pass>
std::string refuse_pass(std::string_view name, const Pass& pass, const LaunchContext& context) {
  std::string reason = fused::refuse(pass, context.device);
  if (reason.empty()) reason = fused::refuse_residency(pass, context);
  return reason.empty() ? "" : fmt::format("{}: {}", name, reason);
}

constexpr std::int64_t kKiB = 1024;

std::int64_t row_bytes(const SparseBuffers& buffers) {
  return buffers.dims.head_dim * static_cast<std::int64_t>(size_of(buffers.bank.dtype));
}
/// Written rows of a step of the longest branch.
std::int64_t branch_step_bytes(const SparseBuffers& buffers) {
  const std::int64_t streams = (buffers.dims.streams - 1) / kMostBranches + 1;
  return row_bytes(buffers) * streams * buffers.dims.write_positions();
}

}  // namespace

std::string refuse_fused(const SparsePlan& plan, const SparseBuffers& buffers, const LaunchContext& context) {
  std::string reason = refuse_picks(plan);
  if (reason.empty()) reason = refuse_pass("forward", bind_forward(buffers, nullptr), context);
  if (reason.empty() && has_backward(buffers))
    reason = refuse_pass("backward", bind_backward(buffers, nullptr), context);
  return reason;
}

bool forward_fused_pays(const SparseBuffers& buffers) {
  const int chunk = buffers.dims.chunk;
  const bool small_products = chunk <= 64 || (chunk <= 128 && chunk * row_bytes(buffers) <= 64 * kKiB);
  return small_products && buffers.dims.streams >= kMostBranches && 4 * branch_step_bytes(buffers) >= 7 * 1024 * kKiB;
}

bool backward_fused_pays(const SparseBuffers& buffers) {
  return buffers.dims.streams > kMostBranches && buffers.dims.chunk <= 64 && row_bytes(buffers) <= kKiB;
}

std::string describe_fused_forward(const SparseBuffers& buffers, const LaunchContext& context) {
  return fused::describe(bind_forward(buffers, nullptr), context);
}
std::string describe_fused_backward(const SparseBuffers& buffers, const LaunchContext& context) {
  return fused::describe(bind_backward(buffers, nullptr), context);
}

void forward_fused(Executor& ex, const SparsePlan& plan, const SparseBuffers& b, std::uint32_t* counters) {
  prepare(ex, plan, b);
  ex.run_steps("forward_steps",
               [&](const LaunchContext& context) { fused::launch(bind_forward(b, counters), context); });
}

void backward_fused(Executor& ex, const SparsePlan& plan, const SparseBuffers& b, std::uint32_t* counters) {
  begin_backward(ex, plan, b);
  ex.run_steps("backward_steps",
               [&](const LaunchContext& context) { fused::launch(bind_backward(b, counters), context); });
  finish_backward(ex, plan, b);
}

}  // namespace sdm
