// Checks that run the case again and compare digests: repeat, disturbed, agree, guards.
#include <fmt/format.h>

#include "base/error.h"
#include "check/check.h"

namespace sdm::check {
namespace {

std::string compare_with_reference(const CheckContext& context, const StepDigests& again) {
  return first_difference(context.session.buffers(), {context.forward, context.backward}, again);
}

std::string inputs_digest(const SparseSession& session) {
  std::string all;
  for (const Tensor* tensor : session.buffers().tensors())
    if (tensor->role == Tensor::Role::input) all += session.digest(*tensor);
  return all;
}

}  // namespace

CheckResult repeat(const CheckSpec& spec, CheckContext& context) {
  for (int run = 1; run <= spec.runs; ++run)
    if (const std::string where = compare_with_reference(context, run_step(context.session)); !where.empty())
      return failed(
          fmt::format("run {} of {} from restored state differs from the first in {}", run, spec.runs, where));
  return passed(fmt::format("{} further runs from restored state left the same bits in every tensor", spec.runs));
}

CheckResult disturbed(const CheckSpec&, CheckContext& context) {
  if (!context.backend.device()) return skipped("needs a GPU: the host replay has no neighbours on its device");
  return skipped("no disturbing load is built for this device yet");
}

CheckResult agree(const CheckSpec&, CheckContext& context) {
  if (!context.backend.device()) return skipped("needs a GPU: the host has one form of every stage, the replay");
  int compared = 0;
  std::string refused;
  std::string failure;
  context.stages.each_sparse([&](const auto& stage) {
    for (const auto* variant : stage.variants) {
      if (!failure.empty() || variant->guarantee != Guarantee::exact) continue;
      std::map<std::string, std::string> variants = context.variants;
      variants[std::string(stage.name)] = variant->name;
      try {
        SparseSession session(context.workload, context.inputs, context.backend, context.threads, variants,
                              context.stages);
        const std::string where = compare_with_reference(context, run_step(session));
        if (!where.empty()) failure = fmt::format("with {}/{} the bits of {} change", stage.name, variant->name, where);
        ++compared;
      } catch (const Unsupported&) {
        refused += fmt::format("{}{}/{}", refused.empty() ? "" : ", ", stage.name, variant->name);
      }
    }
  });
  if (!failure.empty()) return failed(failure);
  return passed(fmt::format("{} exact variants give the same bits{}", compared,
                            refused.empty() ? "" : fmt::format(" (refused here: {})", refused)));
}

/// Guard bytes stay intact, inputs unchanged, and outputs do not depend on what their memory held before: an element
/// that no stage writes shows as a difference between two poisons.
CheckResult guards(const CheckSpec&, CheckContext& context) {
  constexpr std::uint8_t kOtherPoison = 0x5A;
  const std::string before = inputs_digest(context.session);
  context.session.load_inputs();
  if (inputs_digest(context.session) != before) return failed("an input tensor was overwritten by an earlier run");
  const StepDigests again = run_step(context.session, kOtherPoison);
  if (const std::string broken = context.session.arena().first_broken_guard(); !broken.empty()) return failed(broken);
  if (inputs_digest(context.session) != before) return failed("an input tensor was overwritten");
  if (const std::string where = compare_with_reference(context, again); !where.empty())
    return failed(fmt::format("{} depends on what its memory held before: some element is never written", where));
  return passed("guard bytes intact, every output element written, inputs unchanged");
}

}  // namespace sdm::check
