#pragma once
#include "run/case_runner.h"

namespace sdm {

/// Generates, checks and times one dense case into `result`. Its one pass is called "backward": the re-scan opens the
/// backward of the chunked form. Throws Abandoned (run/case_support.h) and what sessions throw.
void run_dense_case(const Case& c, const CaseEnvironment& environment, CaseResult& result);

}  // namespace sdm
