#pragma once
#include <string>

#include "oracle/sparse.h"
#include "run/sparse_session.h"

namespace sdm::check {

/// Why the fp64 oracle cannot take a workload; empty where it can.
std::string too_large_for_oracle(const SparseWorkload& workload);

struct OracleVerdict {
  int outputs = 0;
  double worst_ratio = 0;  ///< largest error / bound
  std::string failure;     ///< the first output out of bounds, in a sentence; empty where all hold
};

/// Runs the session from restored state and judges its outputs against the oracle. `forward_only` leaves the gradients
/// out.
OracleVerdict judge(SparseSession& session, const SparseInputs& inputs, const OracleOptions& options, bool forward_only,
                    Parallel& threads);

}  // namespace sdm::check
