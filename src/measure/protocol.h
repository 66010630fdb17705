#pragma once
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "report/result.h"
#include "run/sparse_session.h"

namespace sdm {

struct MeasureResult {
  std::vector<PassTiming> passes;
  std::vector<StageTiming> stages;
  double timer_floor_us = 0;  ///< median between two marks with nothing in between
};

struct MeasureOptions {
  TimingSpec timing;
  std::function<void(std::string_view)> progress;  ///< told what is being timed
  std::function<bool()> stop;                      ///< true: leave early with what was sampled
};

/// Takes one sample: runs the work and returns its microseconds.
using Sample = std::function<double()>;

/// Warm-up, then samples until the relative interquartile range is reached with at least `min_samples`, or the time is
/// up. A sample taken while the device ran below the clock threshold counts as throttled and stays in.
SampleStats sample_until_stable(const TimingSpec& timing, const Backend& backend, const Sample& sample,
                                const std::function<bool()>& stop);

/// Times both passes, then every stage on its own (on a GPU all its launches of a pass as one recording; on the host by
/// marks around each call). The session's contents are undefined afterwards.
MeasureResult measure(SparseSession& session, const MeasureOptions& options);

}  // namespace sdm
