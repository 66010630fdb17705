#pragma once
#include "check/check.h"
#include "run/dense_session.h"

namespace sdm {

/// What a check of a dense case works with. `reference`: digests of the first run of `session`.
struct DenseCheckContext {
  const DenseWorkload& workload;
  const DenseInputs& inputs;
  DenseSession& session;
  Backend& host;
  Parallel& threads;
  std::map<std::string, std::string> reference;
  const Registry& stages = registry();               ///< of the session; tests plant faults here
  bool price = false;                                ///< as CheckContext's
  std::function<Digests()> fresh_process = nullptr;  ///< as CheckContext's
  DeterminismLedger ledger = {};
};

/// Runs one check; one that cannot apply is `skipped` with the reason. dq of the atomic mode is left out of every
/// comparison of bits: its order is the scheduler's.
CheckResult run_dense_check(const CheckSpec& spec, DenseCheckContext& context);

/// The bits after timing against those before.
CheckResult check_after_timing(DenseCheckContext& context);

/// The outputs that lie in `session` against the fp64 oracle: the steps of spec 4 at fp32 accuracy, an independent
/// chunked run and the token recurrence (docs/dense.md). Large cases are judged on evenly spread streams.
struct DenseOracleVerdict {
  std::int64_t streams = 0;                  ///< judged
  double steps = 0, chunks = 0, tokens = 0;  ///< largest error / bound of the three
  std::string failure;
};
DenseOracleVerdict judge_dense(const DenseSession& session, const DenseInputs& inputs, Parallel& threads);

}  // namespace sdm
