#pragma once
#include <functional>
#include <map>
#include <span>
#include <string>

#include "check/ledger.h"
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
  bool price = false;                   ///< `baselines` may take times
  /// Digests of this case from a fresh process, both passes in one; throws UserError where it fails. Null: there is no
  /// way to start one.
  std::function<Digests()> fresh_process = nullptr;
  DeterminismLedger ledger = {};
};

/// Restores the session, runs one training step and returns the digests of both passes.
struct StepDigests {
  Digests forward, backward;
};
StepDigests run_step(SparseSession& session, std::uint8_t poison = Arena::kPoisonByte);

/// Which tensors' digests differ.
Difference difference(const SparseBuffers& buffers, const StepDigests& expected, const StepDigests& actual);

/// Its first one, in pipeline order, as "stage/tensor"; empty: all equal.
std::string first_difference(const SparseBuffers& buffers, const StepDigests& expected, const StepDigests& actual);

/// Runs one check. A check that cannot apply (no GPU, lossy snapshot, too large) is `skipped` with the reason; a failed
/// comparison is a value, errors of the machine are exceptions.
CheckResult run_check(const CheckSpec& spec, CheckContext& context);

std::string_view name_of(CheckSpec::Kind kind);

/// The session's variants of that guarantee, as "write/atomic, read_grad/atomic"; empty: none.
std::string variants_of(const SparseSession& session, Guarantee guarantee);

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
CheckResult half_device(const CheckSpec& spec, CheckContext& context);
CheckResult fragmented(const CheckSpec& spec, CheckContext& context);
CheckResult process(const CheckSpec& spec, CheckContext& context);
CheckResult poison(const CheckSpec& spec, CheckContext& context);
CheckResult baselines(const CheckSpec& spec, CheckContext& context);

/// Notes the comparison of `again` with the reference in the ledger. Returns the difference.
Difference compare_with_reference(CheckContext& context, const std::string& check, DeterminismLevel level,
                                  const StepDigests& again);

/// Launch geometries that checks try beside a variant's own.
std::span<const Geometry> other_geometries();

/// The modes that the session's backend accepts, set one after the other; the session is left in `own`.
/// `run(name)` returns false to stop.
void each_launch_mode(SparseSession& session, LaunchMode own, const std::function<bool(const std::string&)>& run);

}  // namespace check
}  // namespace sdm
