#pragma once
#include <string_view>
#include <utility>

#include "backend/backend.h"
#include "base/parallel.h"
#include "kernels/stage.h"

namespace sdm {

/// One call of a stage inside a pass.
struct StageCall {
  std::string_view stage;
  int step;  ///< -1 for stages that run once a pass
};

/// Told about every stage call of an executor: lockstep comparison and per-stage timing.
class StageObserver {
 public:
  virtual ~StageObserver() = default;
  virtual void before(const StageCall&) {}
  virtual void after(const StageCall&) {}
};

/// Runs stages: the one place with an NVTX range, an error check and observers. A pick without a variant replays on the
/// host.
class Executor {
 public:
  /// `only`: run the calls of this stage alone and leave all others out (to time it); empty: run all.
  Executor(Backend& backend, Parallel& threads, LaunchContext context, StageObserver* observer = nullptr,
           std::string_view only = {})
      : backend_(backend), threads_(threads), context_(context), observer_(observer), only_(only) {}

  template <typename Params>
  void run(const StagePick<Params>& pick, const Params& params) {
    StageCall call{pick.stage->name, -1};
    if (!only_.empty() && only_ != call.stage) return;
    if constexpr (requires { params.step; }) call.step = params.step;
    if (observer_) observer_->before(call);
    backend_.push_range(call.stage);
    if (pick.variant) {
      pick.variant->launch(params, next_context());
      backend_.after_launch(call.stage, call.step);
    } else {
      pick.stage->replay(params, threads_);
    }
    backend_.pop_range();
    if (observer_) observer_->after(call);
  }

  /// `ahead`, and `behind` on what of the device it leaves free; one after the other, `behind` first, where the backend
  /// cannot (outside of recordings) or one stage runs alone. Neither may read what the other one writes.
  template <typename Behind, typename Ahead>
  void beside(Behind&& behind, Ahead&& ahead) {
    const LaunchContext whole = context_;
    CUstream_st* const other = only_.empty() ? backend_.fork() : nullptr;
    if (other) context_.stream = other, context_.share = Share::rest;
    behind();
    context_ = whole;
    if (other) context_.share = Share::first;
    ahead();
    context_ = whole;
    if (!other) return;
    backend_.join();
    joined_ = true;
  }

  /// All steps of a pass in one launch, which has no stage calls to observe.
  template <typename Launch>
  void run_steps(std::string_view name, Launch&& launch) {
    backend_.push_range(name);
    launch(next_context());
    backend_.after_launch(name, -1);
    backend_.pop_range();
  }

 private:
  /// The first launch after a join waits for both streams before it begins: what a dependent launch reads before its
  /// wait is of launches before the previous one, and of two streams' last launches neither is that to the other.
  LaunchContext next_context() {
    LaunchContext context = context_;
    if (std::exchange(joined_, false)) context.dependent_launch = false;
    return context;
  }

  Backend& backend_;
  Parallel& threads_;
  LaunchContext context_;
  StageObserver* observer_;
  std::string_view only_;
  bool joined_ = false;  ///< by the last call of beside()
};

}  // namespace sdm
