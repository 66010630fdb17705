#include "report/sample_stats.h"

#include <utility>

#include "base/statistics.h"

namespace sdm {

SampleStats sample_stats(std::vector<double> samples_us, int throttled, bool converged) {
  const Summary summary = summarize(samples_us);
  SampleStats stats;
  stats.median_us = summary.median;
  stats.q1_us = summary.q1;
  stats.q3_us = summary.q3;
  stats.min_us = summary.min;
  stats.p95_us = summary.p95;
  stats.samples_us = std::move(samples_us);
  stats.throttled = throttled;
  stats.converged = converged;
  return stats;
}

}  // namespace sdm
