#pragma once
#include <functional>
#include <string_view>
#include <utility>

#include "backend/backend.h"
#include "base/parallel.h"
#include "config/config.h"
#include "report/result.h"

namespace sdm {

struct AbEnvironment {
  Backend& backend;
  Parallel& threads;
  bool quick = false;
  std::function<void(std::string_view)> phase;  ///< told what is being timed
  std::function<bool()> stop;                   ///< true: the user wants out
};

/// Runs two forms of one workload in one process and samples them in turn, A, B, A, B, .. (the second of a pair changes
/// sides every time): what drifts, drifts for both. Passes, then each stage alone where the timing asks for stages;
/// cold where it asks for cold or both. Both results carry digests, so that the forms can be compared in bits, too.
/// Failures of a side are in its status and reason; only a lost CUDA context (CudaError.sticky) is thrown.
std::pair<CaseResult, CaseResult> run_interleaved(const Case& a, const Case& b, const AbEnvironment& environment);

/// The largest relative difference of the medians of two runs of one build over passes and stages; none without
/// timings. What a comparison of two builds shows below this is noise.
std::optional<double> relative_spread(const CaseResult& a, const CaseResult& b);

}  // namespace sdm
