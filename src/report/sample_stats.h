#pragma once
#include <vector>

#include "report/result.h"

namespace sdm {

/// The statistics of samples in microseconds (base/statistics.h), with the samples kept in the order they were taken.
SampleStats sample_stats(std::vector<double> samples_us, int throttled, bool converged);

}  // namespace sdm
