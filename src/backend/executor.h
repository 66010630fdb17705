#pragma once
#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

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

/// Of the streams of a workload, in the mode of `auto`. H200, forward and backward with 4 and 8 of them, us: `default`
/// 1,068 1,057 and 1,615 1,597; small120 1,170 1,153 and 1,790 1,735; with one 1,149 and 1,708, 1,234 and 1,903.
inline constexpr int kMostBranches = 8;

/// Branches of `parts`, at most `most`: as few as have the same longest one, so that all end together.
constexpr int branch_count(int parts, int most) {
  const int longest = (parts - 1) / most + 1;
  return (parts - 1) / longest + 1;
}

/// How launches of one of `count` branches see the device: a third more than their share, as others wait meanwhile.
/// H200, backward with 8 branches of one stream that see their share, a third more, twice and all of it: `default`
/// 1,620 us, 1,599, 1,815 and 2,507; small120 1,798, 1,742, 1,836 and 2,157.
inline LaunchContext on_branch(LaunchContext context, int count) {
  context.device.multiprocessors = std::max(1, context.device.multiprocessors * 4 / (3 * count));
  return context;
}

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

  /// body(first, last) for ranges of [0, parts), of which none reads what another one writes: in a recording as many as
  /// its branches, each on a stream of its own and on its share of the device; else all of it at once. While one branch
  /// waits between two launches, the others move rows.
  template <typename Body>
  void in_branches(int parts, Body&& body) {
    std::vector<CUstream_st*> streams{context_.stream};
    for (int more = branch_count(parts, context_.branches) - 1; more > 0; --more)
      if (CUstream_st* const other = backend_.fork()) streams.push_back(other);
    const int count = static_cast<int>(streams.size());
    if (count == 1) return body(0, parts);
    const LaunchContext whole = std::exchange(context_, on_branch(context_, count));
    for (int i = 0; i < count; ++i) {
      context_.stream = streams[static_cast<std::size_t>(i)];
      joined_ |= i > 0;  // its first launch waits for what the first stream had before the fork
      body(parts * i / count, parts * (i + 1) / count);
    }
    context_ = whole;
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
  /// The first launch after a join, or of a forked stream, waits for all streams before it begins: what a dependent
  /// launch reads before its wait is of launches before the previous one, and of two streams' last launches neither is
  /// that to the other.
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
  bool joined_ = false;  ///< or forked, and nothing launched since
};

}  // namespace sdm
