#pragma once
#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "report/result.h"

namespace sdm {

struct IsolateOptions {
  std::vector<std::string> arguments;  ///< flags of `sdm-bench run` for the child: device, threads, what to leave out
  std::function<int()> interrupt;      ///< the signal that arrived, 0 for none
};

struct IsolatedCase {
  CaseResult result;
  std::vector<RoofPoint> roof;  ///< what the child measured of the memory
};

/// Runs one case in a process of its own: `sdm-bench run -` with the case's effective config on stdin and a JSON result
/// on stdout. Whatever happens to that process costs this case only: a crash gives status error with the signal and the
/// last line that it wrote, a hang beyond timing.case_timeout_seconds (and a grace for starting) gives timeout, an
/// interrupt not_run. A case without a time limit may hang for ever.
IsolatedCase run_case_isolated(const Case& c, const IsolateOptions& options);

}  // namespace sdm
