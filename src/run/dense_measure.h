#pragma once
#include <functional>
#include <string>
#include <vector>

#include "config/config.h"
#include "run/dense_session.h"

namespace sdm {

struct DenseTimes {
  struct Mode {
    std::string l2;  ///< "cold" | "hot" | "host"
    SampleStats time;
    double host_us = 0;  ///< median host wall time of enqueueing
  };
  std::vector<Mode> modes;
  double timer_floor_us = 0;
};

/// Times the re-scan by the protocol of spec 5.4; `stop` true: leave early with what was sampled.
DenseTimes measure_dense(DenseSession& session, const TimingSpec& timing, LaunchMode launch,
                         const std::function<bool()>& stop);

}  // namespace sdm
