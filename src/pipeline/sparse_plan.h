#pragma once
#include <map>
#include <string>

#include "kernels/registry.h"
#include "pipeline/sparse_buffers.h"
#include "report/result.h"

namespace sdm {

/// Which variant runs each stage of the sparse pipeline.
struct SparsePlan {
  StagePick<group_entries::Params> group_entries;
  StagePick<decay_sums::Params> decay_sums;
  StagePick<interactions::Params> interactions;
  StagePick<solve::Params> solve;
  StagePick<combine::Params> combine;
  StagePick<gather::Params> gather;
  StagePick<mix::Params> mix;
  StagePick<write::Params> write;
  StagePick<combine_grad::Params> combine_grad;
  StagePick<gather_grad::Params> gather_grad;
  StagePick<mix_grad::Params> mix_grad;
  StagePick<undo::Params> undo;
  StagePick<read_grad::Params> read_grad;
  StagePick<reduce::Params> reduce;
  StagePick<parameter_gradients::Params> parameter_gradients;
};

/// Picks variants by name ("*" for all stages, "auto" for the first that accepts). Sizes only: `buffers` need not be
/// allocated. Without a device every stage replays. Throws Unsupported with the variant's own reason, or with every
/// variant's reason where none accepts. `stages` must outlive the plan.
SparsePlan make_plan(const std::map<std::string, std::string>& names, const SparseBuffers& buffers,
                     const Device* device, const Registry& stages = registry());

/// Whether the forward runs the stage; else the backward does.
bool in_forward(std::string_view stage);
/// Whether the forward runs it once, before its steps.
bool in_prepare(std::string_view stage);

/// What the plan resolved to, for the result: stage -> variant, launch shape (of the first branch, where steps run in
/// branches), guarantee. A workload that keeps no snapshot has no stages of the backward.
std::map<std::string, ResolvedVariant> describe(const SparsePlan& plan, const SparseBuffers& buffers,
                                                const LaunchContext& context);

}  // namespace sdm
