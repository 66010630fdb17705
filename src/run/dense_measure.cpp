#include "run/dense_measure.h"

#include <chrono>

#include "base/statistics.h"
#include "measure/protocol.h"

namespace sdm {
namespace {

double timer_floor(Backend& backend) {
  std::vector<double> floors;
  for (int i = 0; i < 21; ++i) {
    backend.reset_marks();
    const int begin = backend.mark();
    floors.push_back(backend.between_us(begin, backend.mark()));
  }
  return median(floors);
}

std::vector<std::string> l2_modes(const Backend& backend, TimingSpec::L2 l2) {
  if (!backend.device()) return {"host"};
  if (l2 == TimingSpec::L2::both) return {"cold", "hot"};
  return {l2 == TimingSpec::L2::cold ? "cold" : "hot"};
}

}  // namespace

DenseTimes measure_dense(DenseSession& session, const TimingSpec& timing, LaunchMode launch,
                         const std::function<bool()>& stop) {
  Backend& backend = session.backend();
  DenseTimes times{.timer_floor_us = timer_floor(backend)};
  const bool recorded = launch == LaunchMode::automatic || launch == LaunchMode::graph;
  const std::unique_ptr<Recording> recording = recorded ? backend.record([&] { session.run(); }) : nullptr;
  for (const std::string& l2 : l2_modes(backend, timing.l2)) {
    std::vector<double> host_us;
    const auto sample = [&] {
      if (l2 == "cold") backend.flush_l2();
      backend.synchronize();
      backend.reset_marks();
      const int begin = backend.mark();
      const auto host_begin = std::chrono::steady_clock::now();
      if (recording)
        recording->replay();
      else
        session.run();
      host_us.push_back(1e6 * std::chrono::duration<double>(std::chrono::steady_clock::now() - host_begin).count());
      return backend.between_us(begin, backend.mark());
    };
    DenseTimes::Mode mode{.l2 = l2, .time = sample_until_stable(timing, backend, sample, stop)};
    mode.host_us = median(host_us);
    times.modes.push_back(std::move(mode));
    if (stop && stop()) break;
  }
  return times;
}

}  // namespace sdm
