#include "check/check.h"

#include <fmt/format.h>

#include "base/error.h"

namespace sdm {

std::string_view name_of(CheckSpec::Kind kind) {
  constexpr std::string_view names[] = {"replay",        "oracle", "repeat",    "agree",       "invariance",
                                        "bank_restored", "guards", "disturbed", "half_device", "fragmented",
                                        "process",       "poison", "baselines"};
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

Difference difference(const SparseBuffers& buffers, const StepDigests& expected, const StepDigests& actual) {
  Difference found;
  const auto look = [&](const Digests& a, const Digests& b, const std::string& stage, const std::string& tensor) {
    const auto in_a = a.find(stage), in_b = b.find(stage);
    if (in_a == a.end() || in_b == b.end()) return;
    const auto x = in_a->second.find(tensor), y = in_b->second.find(tensor);
    if (x == in_a->second.end() || y == in_b->second.end() || x->second == y->second) return;
    if (found.where.empty()) found.where = fmt::format("{}/{}", stage, tensor);
    found.stages.insert(stage);
  };
  for (const Tensor* tensor : buffers.tensors()) {
    const std::string stage(tensor->stage), name(tensor->name);
    look(expected.forward, actual.forward, stage, name);
    look(expected.backward, actual.backward, stage, name);
  }
  look(expected.forward, actual.forward, "write", "bank");
  look(expected.backward, actual.backward, "undo", "bank");
  look(expected.backward, actual.backward, "read_grad", "grad");
  return found;
}

std::string first_difference(const SparseBuffers& buffers, const StepDigests& expected, const StepDigests& actual) {
  return difference(buffers, expected, actual).where;
}

std::string variants_of(const SparseSession& session, Guarantee guarantee) {
  std::string names;
  for (const auto& [stage, variant] : session.resolved())
    if (variant.guarantee == name_of(guarantee))
      names += fmt::format("{}{}/{}", names.empty() ? "" : ", ", stage, variant.name);
  return names;
}

namespace check {

CheckResult passed(std::string detail) { return {"", CheckResult::Status::passed, std::move(detail), ""}; }
CheckResult failed(std::string detail) { return {"", CheckResult::Status::failed, std::move(detail), ""}; }
CheckResult skipped(std::string detail) { return {"", CheckResult::Status::skipped, std::move(detail), ""}; }

Difference compare_with_reference(CheckContext& context, const std::string& name, DeterminismLevel level,
                                  const StepDigests& again) {
  Difference found = difference(context.session.buffers(), {context.forward, context.backward}, again);
  context.ledger.note(name, level, found);
  return found;
}

std::span<const Geometry> other_geometries() {
  static constexpr Geometry kGeometries[] = {{32, 1, 4}, {64, 2, 8}, {96, 4, 16}, {256, 8, 32}, {1024, 16, 8}};
  return kGeometries;
}

void each_launch_mode(SparseSession& session, LaunchMode own, const std::function<bool(const std::string&)>& run) {
  std::string seen;  // automatic is one of the others, by name
  for (const LaunchMode mode : {LaunchMode::eager, LaunchMode::plan, LaunchMode::pdl, LaunchMode::graph,
                                LaunchMode::fused, LaunchMode::automatic}) {
    try {
      session.set_launch(mode);
    } catch (const Unsupported&) {
      continue;
    }
    const std::string name = session.launch_name();
    if (seen.find("<" + name + ">") != std::string::npos) continue;
    seen += "<" + name + ">";
    if (!run(name)) break;
  }
  session.set_launch(own);
}

}  // namespace check

namespace {

/// Checks that compare digests have nothing to compare where a variant promises no order.
bool compares_bits(CheckSpec::Kind kind) {
  using Kind = CheckSpec::Kind;
  switch (kind) {
    case Kind::oracle:
    case Kind::repeat:
    case Kind::bank_restored:
    case Kind::guards:
    case Kind::baselines: return false;
    default: return true;
  }
}

}  // namespace

CheckResult run_check(const CheckSpec& spec, CheckContext& context) {
  using Run = CheckResult (*)(const CheckSpec&, CheckContext&);
  constexpr Run checks[] = {check::replay,      check::oracle,        check::repeat,  check::agree,
                            check::invariance,  check::bank_restored, check::guards,  check::disturbed,
                            check::half_device, check::fragmented,    check::process, check::poison,
                            check::baselines};
  const std::string loose =
      compares_bits(spec.kind) ? variants_of(context.session, Guarantee::approximate) : std::string();
  CheckResult result = loose.empty()
                           ? checks[static_cast<int>(spec.kind)](spec, context)
                           : check::skipped(fmt::format("{} has no fixed order: there are no bits to compare", loose));
  result.name = name_of(spec.kind);
  return result;
}

}  // namespace sdm
