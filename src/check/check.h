#pragma once
#include <functional>
#include <string>

#include "config/config.h"
#include "report/result.h"
#include "run/sparse_session.h"

namespace sdm {

/// What a check of a sparse case works with. `session` is the run under test; its digests after one training step from
/// restored state are the reference that repeats are compared with.
struct CheckContext {
  const SparseWorkload& workload;
  const SparseInputs& inputs;
  const std::map<std::string, std::string>& variants;
  LaunchMode launch;
  SparseSession& session;
  Backend& backend;  ///< the session's
  Backend& host;
  Parallel& threads;
  Digests forward, backward;            ///< of the reference run
  const Registry& stages = registry();  ///< of the session; tests plant faults here
};

/// Restores the session, runs one training step and returns the digests of both passes.
struct StepDigests {
  Digests forward, backward;
};
StepDigests run_step(SparseSession& session, std::uint8_t poison = Arena::kPoisonByte);

/// The first tensor, in pipeline order, whose digest differs, as "stage/tensor"; empty: all equal.
std::string first_difference(const SparseBuffers& buffers, const StepDigests& expected, const StepDigests& actual);

/// Runs one check. A check that cannot apply (no GPU, lossy snapshot, too large) is `skipped` with the reason; a failed
/// comparison is a value, errors of the machine are exceptions.
CheckResult run_check(const CheckSpec& spec, CheckContext& context);

std::string_view name_of(CheckSpec::Kind kind);

namespace check {

CheckResult passed(std::string detail);
CheckResult failed(std::string detail);
CheckResult skipped(std::string detail);

CheckResult replay(const CheckSpec& spec, CheckContext& context);
CheckResult oracle(const CheckSpec& spec, CheckContext& context);
CheckResult repeat(const CheckSpec& spec, CheckContext& context);
CheckResult agree(const CheckSpec& spec, CheckContext& context);
CheckResult invariance(const CheckSpec& spec, CheckContext& context);
CheckResult bank_restored(const CheckSpec& spec, CheckContext& context);
CheckResult guards(const CheckSpec& spec, CheckContext& context);
CheckResult disturbed(const CheckSpec& spec, CheckContext& context);

}  // namespace check
}  // namespace sdm
