#include "check/check.h"

#include <fmt/format.h>

namespace sdm {

std::string_view name_of(CheckSpec::Kind kind) {
  constexpr std::string_view names[] = {"replay",     "oracle",        "repeat", "agree",
                                        "invariance", "bank_restored", "guards", "disturbed"};
  return names[static_cast<int>(kind)];
}

StepDigests run_step(SparseSession& session, std::uint8_t poison) {
  session.restore(poison);
  StepDigests digests;
  session.run(Pass::forward);
  digests.forward = session.digests(Pass::forward);
  session.run(Pass::backward);
  digests.backward = session.digests(Pass::backward);
  return digests;
}

std::string first_difference(const SparseBuffers& buffers, const StepDigests& expected, const StepDigests& actual) {
  const auto differs = [](const Digests& a, const Digests& b, const std::string& stage, const std::string& tensor) {
    const auto in_a = a.find(stage), in_b = b.find(stage);
    if (in_a == a.end() || in_b == b.end()) return false;
    const auto x = in_a->second.find(tensor), y = in_b->second.find(tensor);
    return x != in_a->second.end() && y != in_b->second.end() && x->second != y->second;
  };
  for (const Tensor* tensor : buffers.tensors()) {
    const std::string stage(tensor->stage), name(tensor->name);
    if (differs(expected.forward, actual.forward, stage, name) ||
        differs(expected.backward, actual.backward, stage, name))
      return fmt::format("{}/{}", stage, name);
  }
  if (differs(expected.forward, actual.forward, "write", "bank")) return "write/bank";
  if (differs(expected.backward, actual.backward, "undo", "bank")) return "undo/bank";
  if (differs(expected.backward, actual.backward, "read_grad", "grad")) return "read_grad/grad";
  return {};
}

namespace check {

CheckResult passed(std::string detail) { return {"", CheckResult::Status::passed, std::move(detail), ""}; }
CheckResult failed(std::string detail) { return {"", CheckResult::Status::failed, std::move(detail), ""}; }
CheckResult skipped(std::string detail) { return {"", CheckResult::Status::skipped, std::move(detail), ""}; }

}  // namespace check

CheckResult run_check(const CheckSpec& spec, CheckContext& context) {
  using Run = CheckResult (*)(const CheckSpec&, CheckContext&);
  constexpr Run checks[] = {check::replay,     check::oracle,        check::repeat, check::agree,
                            check::invariance, check::bank_restored, check::guards, check::disturbed};
  CheckResult result = checks[static_cast<int>(spec.kind)](spec, context);
  result.name = name_of(spec.kind);
  return result;
}

}  // namespace sdm
