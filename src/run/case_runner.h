#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "base/parallel.h"
#include "config/config.h"
#include "report/result.h"
#include "run/sparse_session.h"

namespace sdm {

/// Where and how cases run.
struct CaseEnvironment {
  Backend& backend;
  Backend& host;
  Parallel& threads;
  std::vector<RoofPoint> roof;  ///< measured in this run; empty: no percentages
  Geometry geometry;            ///< asked for by the user; zeros: the variants' own rules
  bool checks = true, timing = true, quick = false, profile = false;
  std::function<void(std::string_view)> phase;  ///< told what a case is at
  std::function<bool()> stop;                   ///< true: the user wants out
  PlantedFault* fault = nullptr;                ///< run --plant: spoils sparse cases
  /// Digests of a case, by its id, from a fresh process; throws UserError. Null: `process` checks are skipped.
  std::function<Digests(const std::string&)> fresh_process = nullptr;
  std::optional<double> most_determinism_cost = std::nullopt;  ///< a larger price of order fails the case
};

/// Generates, checks and times one case. Failures of the case are in the result's status and reason; only a lost CUDA
/// context (CudaError.sticky) is thrown.
CaseResult run_case(const Case& c, const CaseEnvironment& environment);

}  // namespace sdm
