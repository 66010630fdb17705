// agree: variants that were not chosen, held against the case's bits; with `ladder` on every rung.
#include <fmt/format.h>

#include "base/error.h"
#include "check/check.h"

namespace sdm::check {
namespace {

/// One variant beside the chosen ones, and how far its bits hold.
class Climb {
 public:
  Climb(CheckContext& context, SparseSession& session, Guarantee guarantee)
      : context_(context),
        session_(session),
        // A repeatable variant has bits of its own; an exact one those of the case.
        reference_(guarantee == Guarantee::exact ? StepDigests{context.forward, context.backward} : run_step(session)) {
    row_.chosen = false;
  }

  /// False where the bits are not the case's at all.
  bool first_run() { return holds("a first run"); }

  void all_rungs(Guarantee guarantee) {
    if (!holds("a second run")) return;
    row_.level = DeterminismLevel::run_to_run;
    if (!geometries()) return;
    row_.level = DeterminismLevel::geometry;
    if (!launch_modes()) return;
    row_.level = guarantee == Guarantee::exact ? DeterminismLevel::cpu_equal : DeterminismLevel::launch_mode;
    if (guarantee != Guarantee::exact) row_.reason = std::string(name_of(guarantee)) + " by design";
  }

  StageDeterminism& row() { return row_; }

  /// What did not hold, in a sentence; empty: all held.
  std::string failure() const {
    if (where_.empty()) return {};
    return fmt::format("with {}/{} the bits of {} change in {}", row_.stage, row_.variant, where_, when_);
  }

 private:
  bool holds(const std::string& what) {
    const Difference found = difference(session_.buffers(), reference_, run_step(session_));
    if (found.where.empty()) return true;
    where_ = found.where, when_ = what;
    row_.reason = fmt::format("{} differs in {}", where_, when_);
    return false;
  }

  bool geometries() {
    const Geometry own = session_.geometry();
    bool held = true;
    for (const Geometry& geometry : other_geometries()) {
      session_.set_geometry(geometry);
      held = held && holds(fmt::format("a run with tile {}, {} warps, depth {}", geometry.tile, geometry.warps,
                                       geometry.depth));
    }
    session_.set_geometry(own);
    return held;
  }

  bool launch_modes() {
    bool held = true;
    each_launch_mode(session_, context_.launch, [&](const std::string& name) {
      held = holds("a run launched as " + name);
      return held;
    });
    return held;
  }

  CheckContext& context_;
  SparseSession& session_;
  StepDigests reference_;
  StageDeterminism row_;
  std::string where_, when_;
};

class Agreement {
 public:
  Agreement(const CheckSpec& spec, CheckContext& context) : spec_(spec), context_(context) {}

  CheckResult run() {
    const auto chosen = context_.session.resolved();
    context_.stages.each_sparse([&](const auto& stage) {
      for (const auto* variant : stage.variants)
        if (failure_.empty()) look_at(stage.name, *variant, chosen.at(std::string(stage.name)).name == variant->name);
    });
    if (!failure_.empty()) return failed(failure_);
    return passed(fmt::format("{} exact variants give the same bits{}{}", compared_,
                              spec_.ladder ? ", also again, with other geometries and launch modes" : "",
                              refused_.empty() ? "" : fmt::format(" (refused here: {})", refused_)));
  }

 private:
  template <typename Params>
  void look_at(std::string_view stage, const Variant<Params>& variant, bool chosen) {
    const bool exact = variant.guarantee == Guarantee::exact;
    if (variant.guarantee == Guarantee::approximate || (!exact && (chosen || !spec_.ladder))) return;
    std::map<std::string, std::string> variants = context_.variants;
    variants[std::string(stage)] = variant.name;
    try {
      SparseSession session(context_.workload, context_.inputs, context_.backend, context_.threads, variants,
                            context_.stages);
      Climb climb(context_, session, variant.guarantee);
      climb.row().stage = stage, climb.row().variant = variant.name;
      const bool same = climb.first_run();
      if (same && spec_.ladder && !chosen) climb.all_rungs(variant.guarantee);
      failure_ = climb.failure();
      if (spec_.ladder && !chosen) context_.ledger.note_alternative(climb.row());
      compared_ += exact;
    } catch (const Unsupported&) {
      refused_ += fmt::format("{}{}/{}", refused_.empty() ? "" : ", ", stage, variant.name);
    }
  }

  const CheckSpec& spec_;
  CheckContext& context_;
  int compared_ = 0;
  std::string refused_, failure_;
};

}  // namespace

CheckResult agree(const CheckSpec& spec, CheckContext& context) {
  if (!context.backend.device()) return skipped("needs a GPU: the host has one form of every stage, the replay");
  return Agreement(spec, context).run();
}

}  // namespace sdm::check
