// baselines: the variants that promise no order must be seen to vary where slots are hot, and say what order costs.
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/statistics.h"
#include "check/check.h"

namespace sdm::check {
namespace {

/// From this many entries of one slot in a chunk on, atomics of many CTAs meet: a baseline that never varies there is
/// none, or the check is blind.
constexpr std::int64_t kHotGroup = 64;
constexpr int kSamples = 15;

/// Counts the calls of one stage.
struct StageCalls final : StageObserver {
  explicit StageCalls(std::string_view wanted_) : wanted(wanted_) {}
  void after(const StageCall& call) override { count += call.stage == wanted; }
  std::string_view wanted;
  int count = 0;
};

/// All launches of one stage in a pass as something to time: a recording where the backend has them.
class StageWork {
 public:
  StageWork(SparseSession& session, Pass pass, std::string_view stage) : session_(session), pass_(pass), stage_(stage) {
    recording_ = session.backend().record([&] { session.run_only(pass, stage, nullptr); });
  }
  double microseconds() {
    Backend& backend = session_.backend();
    session_.restore_banks();
    backend.synchronize();
    backend.reset_marks();
    const int begin = backend.mark();
    if (recording_)
      recording_->replay();
    else
      session_.run_only(pass_, stage_, nullptr);
    return backend.between_us(begin, backend.mark());
  }

 private:
  SparseSession& session_;
  Pass pass_;
  std::string_view stage_;
  std::unique_ptr<Recording> recording_;
};

class Baselines {
 public:
  Baselines(const CheckSpec& spec, CheckContext& context)
      : spec_(spec), context_(context), chosen_(context.session.resolved()) {
    const WorkloadFacts facts = measure_facts(context.workload, context.inputs, context.threads);
    longest_write_ = facts.longest_write_group, longest_read_ = facts.longest_read_group;
  }

  CheckResult run() {
    context_.stages.each_sparse([&](const auto& stage) {
      for (const auto* variant : stage.variants)
        if (variant->guarantee == Guarantee::approximate) look_at(stage.name, variant->name);
    });
    if (!blind_.empty()) return failed(blind_);
    if (says_.empty()) return skipped(refused_.empty() ? "no variant without a fixed order is built" : refused_);
    return passed(says_ + (refused_.empty() ? "" : " (" + refused_ + ")"));
  }

 private:
  void look_at(std::string_view stage, std::string_view variant) {
    std::map<std::string, std::string> variants = context_.variants;
    variants[std::string(stage)] = variant;
    try {
      SparseSession session(context_.workload, context_.inputs, context_.backend, context_.threads, variants,
                            context_.stages);
      const int varied_in = first_varying_run(session, stage);
      note(stage, variant, varied_in);
      if (context_.price) price(session, stage, variant, varied_in > 0);
    } catch (const Unsupported& unsupported) {
      refused_ += fmt::format("{}{}/{} refused: {}", refused_.empty() ? "" : "; ", stage, variant, unsupported.what());
    }
  }

  /// The number of the first run whose results of the stage differ from the first run's; 0: none did.
  int first_varying_run(SparseSession& session, std::string_view stage) const {
    const StepDigests first = run_step(session);
    for (int run = 1; run <= spec_.runs; ++run)
      if (difference(session.buffers(), first, run_step(session)).stages.contains(std::string(stage))) return run;
    return 0;
  }

  void note(std::string_view stage, std::string_view variant, int varied_in) {
    const std::int64_t longest = stage == "read_grad" ? longest_read_ : longest_write_;
    const std::string name = fmt::format("{}/{}", stage, variant);
    if (varied_in == 0 && longest >= kHotGroup && blind_.empty())
      blind_ = fmt::format("{} repeated {} times bit for bit on slots with up to {} entries: nothing was seen to vary",
                           name, spec_.runs, longest);
    const std::string saw =
        varied_in > 0 ? fmt::format("varies (run {})", varied_in)
                      : fmt::format("happened to repeat over {} runs (longest group {})", spec_.runs, longest);
    says_ += fmt::format("{}{} {}", says_.empty() ? "" : "; ", name, saw);
    if (chosen_.at(std::string(stage)).name == variant) return;  // the case's own row says it
    context_.ledger.note_alternative({.stage = std::string(stage),
                                      .variant = std::string(variant),
                                      .chosen = false,
                                      .level = DeterminismLevel::not_guaranteed,
                                      .reason = "approximate by design; " + saw});
  }

  /// Samples of the case's variant and of the baseline in turn.
  void price(SparseSession& baseline, std::string_view stage, std::string_view variant, bool varied) {
    const std::string& ordered = chosen_.at(std::string(stage)).name;
    if (ordered == variant) return;
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      StageCalls calls(stage);
      if (pass == Pass::backward && !baseline.has_backward()) continue;
      baseline.run_only(pass, stage, &calls);
      if (calls.count == 0) continue;
      StageWork a(context_.session, pass, stage), b(baseline, pass, stage);
      std::vector<double> a_us, b_us;
      a.microseconds(), b.microseconds();
      for (int i = 0; i < kSamples; ++i) {
        a_us.push_back(a.microseconds());
        b_us.push_back(b.microseconds());
      }
      context_.ledger.note_price({.stage = std::string(stage),
                                  .pass = std::string(name_of(pass)),
                                  .deterministic = ordered,
                                  .baseline = std::string(variant),
                                  .deterministic_us = summarize(a_us).median,
                                  .baseline_us = summarize(b_us).median,
                                  .varied = varied});
    }
  }

  const CheckSpec& spec_;
  CheckContext& context_;
  std::map<std::string, ResolvedVariant> chosen_;
  std::int64_t longest_write_ = 0, longest_read_ = 0;
  std::string says_, refused_, blind_;
};

}  // namespace

CheckResult baselines(const CheckSpec& spec, CheckContext& context) {
  if (!context.backend.device()) return skipped("needs a GPU: the host has no variant without a fixed order");
  return Baselines(spec, context).run();
}

}  // namespace sdm::check
