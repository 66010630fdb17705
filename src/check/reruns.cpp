// Checks that run the case again in the same surroundings: repeat, poison, guards.
#include <fmt/format.h>

#include "base/error.h"
#include "check/check.h"
#include "check/lockstep.h"

namespace sdm::check {
namespace {

std::string inputs_digest(const SparseSession& session) {
  std::string all;
  for (const Tensor* tensor : session.buffers().tensors())
    if (tensor->role == Tensor::Role::input) all += session.digest(*tensor);
  return all;
}

/// Tries to see the difference again with a digest after every call. Empty where it does not show.
std::string locate(SparseSession& session, std::string& stage) {
  constexpr int kTries = 3;
  const auto nothing = [] {};
  for (int i = 0; i < kTries; ++i)
    if (std::string call = first_differing_call(session, nothing, nothing, &stage); !call.empty()) return call;
  return {};
}

/// A run of a case with variants that promise no order differed: as expected, if it is theirs.
CheckResult judge_varying(CheckContext& context, const std::string& loose, const std::string& sentence) {
  std::string stage;
  const std::string call = locate(context.session, stage);
  if (!call.empty() && loose.find(stage + "/") == std::string::npos)
    return failed(fmt::format("{}; after every call compared, the first difference is {}, which is no result of {}",
                              sentence, call, loose));
  return passed(fmt::format("varies, as expected of {}: {}{}", loose, sentence,
                            call.empty() ? "" : "; seen again first after " + call));
}

}  // namespace

CheckResult repeat(const CheckSpec& spec, CheckContext& context) {
  const std::string loose = variants_of(context.session, Guarantee::approximate);
  for (int run = 1; run <= spec.runs; ++run) {
    const Difference found =
        compare_with_reference(context, "repeat", DeterminismLevel::run_to_run, run_step(context.session));
    if (found.where.empty()) continue;
    const std::string sentence =
        fmt::format("run {} of {} from restored state differs from the first in {}", run, spec.runs, found.where);
    if (!loose.empty()) return judge_varying(context, loose, sentence);
    std::string stage;
    const std::string call = locate(context.session, stage);
    return failed(call.empty() ? sentence : fmt::format("{}; compared after every call, first in {}", sentence, call));
  }
  if (!loose.empty())
    return passed(fmt::format("{} happened to repeat over {} further runs, which proves nothing", loose, spec.runs));
  return passed(fmt::format("{} further runs from restored state left the same bits in every tensor", spec.runs));
}

CheckResult poison(const CheckSpec&, CheckContext& context) {
  // Zeros, a large float, a subnormal, alternating bits, the largest finite float's bytes, a signalling NaN.
  constexpr std::uint8_t kPatterns[] = {0x00, 0x5A, 0x80, 0xAA, 0x7F, 0xFE};
  for (const std::uint8_t pattern : kPatterns) {
    const Difference found =
        compare_with_reference(context, "poison", DeterminismLevel::run_to_run, run_step(context.session, pattern));
    if (!found.where.empty())
      return failed(fmt::format("with 0x{:02x} in every byte of outputs and scratch before the run, {} changes",
                                pattern, found.where));
  }
  return passed(fmt::format("{} other contents of outputs and scratch memory changed no bit", std::size(kPatterns)));
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
  if (const std::string loose = variants_of(context.session, Guarantee::approximate); !loose.empty())
    return passed(fmt::format("guard bytes intact, inputs unchanged ({} leaves no bits to compare)", loose));
  const Difference found = compare_with_reference(context, "guards", DeterminismLevel::run_to_run, again);
  if (!found.where.empty())
    return failed(fmt::format("{} depends on what its memory held before: some element is never written", found.where));
  return passed("guard bytes intact, every output element written, inputs unchanged");
}

}  // namespace sdm::check
