// Checks that run the case again in other surroundings: beside a load, on half of the device, elsewhere in memory, in
// another process.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "check/check.h"
#include "check/planted_fault.h"

namespace sdm::check {
namespace {

/// Repeats the case while a load of the kind runs.
CheckResult repeat_beside(LoadKind kind, const CheckSpec& spec, CheckContext& context) {
  const std::string name(name_of(spec.kind));
  // Before the load: a first launch of a kernel loads code and a first recording is made, which may wait for the whole
  // device.
  run_step(context.session);
  const std::unique_ptr<Load> load = context.backend.start_load(kind);
  if (!load) return skipped("there is no such load for this device");
  const FaultSurroundings told(context.stages.fault, kind);
  for (int run = 1; run <= spec.runs; ++run) {
    const StepDigests again = run_step(context.session);
    if (!load->lasting())
      return failed(fmt::format("the load did not last ({}): nothing was proven", load->describe()));
    const Difference found = compare_with_reference(context, name, DeterminismLevel::run_to_run, again);
    if (!found.where.empty())
      return failed(fmt::format("run {} of {} differs from the undisturbed one in {} ({})", run, spec.runs, found.where,
                                load->describe()));
  }
  return passed(fmt::format("{} runs left the undisturbed run's bits; {}", spec.runs, load->describe()));
}

/// Takes blocks of many sizes and gives every second one back; the rest stays until the object goes.
class Fragments {
 public:
  explicit Fragments(Backend& backend) : backend_(backend) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 30;
    constexpr std::size_t kSmallest = std::size_t{64} << 10;
    const std::uint64_t budget = std::min(kMost, backend.free_memory() / 8);
    std::uint64_t taken = 0;
    std::vector<void*> every_second;
    for (std::size_t i = 0; taken < budget && i < 400; ++i) {
      const std::size_t bytes = kSmallest << (i * 7 % 6);
      (i % 2 ? every_second : kept_).push_back(backend.allocate(bytes + 256 * (i % 5)));
      taken += bytes;
    }
    for (void* block : every_second) backend.release(block);
    holes_ = every_second.size();
  }
  ~Fragments() {
    for (void* block : kept_) backend_.release(block);
  }
  Fragments(const Fragments&) = delete;
  Fragments& operator=(const Fragments&) = delete;
  std::size_t holes() const { return holes_; }

 private:
  Backend& backend_;
  std::vector<void*> kept_;
  std::size_t holes_ = 0;
};

}  // namespace

CheckResult disturbed(const CheckSpec& spec, CheckContext& context) {
  return repeat_beside(LoadKind::disturbing, spec, context);
}

CheckResult half_device(const CheckSpec& spec, CheckContext& context) {
  if (!context.backend.device())
    return skipped("needs a GPU: invariance (threads) runs the host replay on other numbers of cores");
  if (context.session.fused()) return skipped("a fused pass needs all its CTAs on the device at once");
  return repeat_beside(LoadKind::half_device, spec, context);
}

CheckResult fragmented(const CheckSpec&, CheckContext& context) {
  const Fragments fragments(context.backend);
  const SparseSession::Updates before = context.session.updates();
  context.session.relocate();
  const Difference found =
      compare_with_reference(context, "fragmented", DeterminismLevel::run_to_run, run_step(context.session));
  if (!found.where.empty())
    return failed(fmt::format("at another place of a memory with {} holes the bits of {} change", fragments.holes(),
                              found.where));
  const int in_place = context.session.updates().in_place - before.in_place;
  return passed(fmt::format("same bits at another place of a memory with {} holes{}", fragments.holes(),
                            in_place ? fmt::format("; {} recordings updated in place", in_place) : ""));
}

CheckResult process(const CheckSpec&, CheckContext& context) {
  if (!context.fresh_process) return skipped("no fresh process can be started from here");
  Digests fresh;
  try {
    fresh = context.fresh_process();
  } catch (const UserError& error) {
    return failed(error.what());
  }
  const Difference found = compare_with_reference(context, "process", DeterminismLevel::run_to_run, {fresh, fresh});
  if (!found.where.empty()) return failed(fmt::format("a fresh process leaves other bits in {}", found.where));
  std::size_t tensors = 0;
  for (const auto& [stage, of_stage] : fresh) tensors += of_stage.size();
  if (tensors == 0) return failed("the fresh process left no digests");
  return passed(fmt::format("a fresh process left the same bits in {} tensors", tensors));
}

}  // namespace sdm::check
