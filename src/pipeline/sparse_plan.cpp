#include "pipeline/sparse_plan.h"

#include "base/error.h"
#include "pipeline/sparse_bind.h"

namespace sdm {
namespace {

std::string wanted(const std::map<std::string, std::string>& names, std::string_view stage) {
  if (const auto own = names.find(std::string(stage)); own != names.end()) return own->second;
  if (const auto all = names.find("*"); all != names.end()) return all->second;
  return "auto";
}

/// True where the "*" wildcard named the variant: stages without such a variant then choose for themselves.
bool by_wildcard(const std::map<std::string, std::string>& names, std::string_view stage) {
  return !names.contains(std::string(stage));
}

template <typename Params>
const Variant<Params>* find(const Stage<Params>& stage, std::string_view name) {
  for (const Variant<Params>* variant : stage.variants)
    if (variant->name == name) return variant;
  return nullptr;
}

template <typename Params>
StagePick<Params> pick(const Stage<Params>& stage, const std::map<std::string, std::string>& names, const Params& params,
                       const Device& device) {
  const std::string name = wanted(names, stage.name);
  const Variant<Params>* named = name == "auto" ? nullptr : find(stage, name);
  if (named) {
    const std::string reason = named->refuse(params, device);
    if (!reason.empty()) throw Unsupported(fmt::format("{}/{} refuses this case: {}", stage.name, name, reason));
    return {&stage, named};
  }
  if (name != "auto" && !by_wildcard(names, stage.name))
    throw Unsupported(fmt::format("stage {} has no variant {}", stage.name, name));
  std::string reasons;
  for (const Variant<Params>* variant : stage.variants) {
    if (!variant->automatic || (variant->suits && !variant->suits(params, device))) continue;
    const std::string reason = variant->refuse(params, device);
    if (reason.empty()) return {&stage, variant};
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", variant->name, reason);
  }
  throw Unsupported(fmt::format("no variant of {} accepts this case ({})", stage.name, reasons.empty() ? "none is built" : reasons));
}

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

SparsePlan make_plan(const std::map<std::string, std::string>& names, const SparseBuffers& buffers, const Device* device,
                     const Registry& stages) {
  SparsePlan plan;
  each(plan, buffers, stages, [&](auto& picked, const auto& stage, const auto& params) {
    if (device) picked = pick(stage, names, params, *device);
    else picked.stage = &stage;
  });
  return plan;
}

std::map<std::string, ResolvedVariant> describe(const SparsePlan& plan, const SparseBuffers& buffers, const LaunchContext& context) {
  std::map<std::string, ResolvedVariant> result;
  each(plan, buffers, registry(), [&](const auto& picked, const auto& stage, const auto& params) {
    const auto* variant = picked.variant;
    result[std::string(stage.name)] =
        variant ? ResolvedVariant{std::string(variant->name), variant->describe(params, context), std::string(name_of(variant->guarantee))}
                : ResolvedVariant{"replay", "", "exact"};
  });
  return result;
}

}  // namespace sdm
