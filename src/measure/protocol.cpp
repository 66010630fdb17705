#include "measure/protocol.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/statistics.h"

namespace sdm {
namespace {

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Sums the time of each stage over a pass by marks around its calls.
class StageMarks final : public StageObserver {
 public:
  explicit StageMarks(Backend& backend) : backend_(backend) {}
  void before(const StageCall&) override { begin_ = backend_.mark(); }
  void after(const StageCall& call) override { spans_.push_back({std::string(call.stage), begin_, backend_.mark()}); }

  struct Total {
    double us = 0;
    int calls = 0;
  };
  std::map<std::string, Total> totals() {
    std::map<std::string, Total> totals;
    for (const Span& span : spans_)
      totals[span.stage].us += backend_.between_us(span.begin, span.end), ++totals[span.stage].calls;
    return totals;
  }

 private:
  struct Span {
    std::string stage;
    int begin, end;
  };
  Backend& backend_;
  int begin_ = 0;
  std::vector<Span> spans_;
};

class Protocol {
 public:
  Protocol(SparseSession& session, const MeasureOptions& options)
      : session_(session), options_(options), backend_(session.backend()) {}

  MeasureResult run() {
    session_.restore();
    result_.timer_floor_us = timer_floor();
    for (const std::string_view l2 : l2_modes()) {
      time_passes(l2);
      if (!options_.timing.per_stage || stopped()) continue;
      if (backend_.device()) time_stages_alone(l2), time_prepare(l2);
    }
    return std::move(result_);
  }

 private:
  bool stopped() const { return options_.stop && options_.stop(); }
  void tell(std::string_view what) const {
    if (options_.progress) options_.progress(what);
  }

  std::vector<std::string_view> l2_modes() const {
    if (!backend_.device()) return {"host"};
    switch (options_.timing.l2) {
      case TimingSpec::L2::cold: return {"cold"};
      case TimingSpec::L2::hot: return {"hot"};
      default: return {"cold", "hot"};
    }
  }

  double timer_floor() {
    std::vector<double> floors;
    for (int i = 0; i < 21; ++i) {
      backend_.reset_marks();
      const int begin = backend_.mark();
      const int end = backend_.mark();
      floors.push_back(backend_.between_us(begin, end));
    }
    return median(floors);
  }

  double timed(std::string_view l2, const std::function<void()>& work) {
    if (l2 == "cold") backend_.flush_l2();
    backend_.synchronize();
    backend_.reset_marks();
    const int begin = backend_.mark();
    const auto host_begin = Clock::now();
    work();
    host_us_.push_back(1e6 * seconds_since(host_begin));
    const int end = backend_.mark();
    return backend_.between_us(begin, end);
  }

  /// Banks must start as the pass expects them: after a lossless training step only the gradient differs.
  void time_passes(std::string_view l2) {
    std::map<std::string, std::vector<double>> stage_samples;
    std::map<std::string, std::pair<std::string, int>> stage_facts;  // stage -> pass, calls
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      if (pass == Pass::backward && !session_.has_backward()) continue;
      tell(fmt::format("time {}", name_of(pass)));
      const auto sample = [&] {
        session_.restore_banks();
        if (pass == Pass::backward) session_.run(Pass::forward);
        if (backend_.device() || !options_.timing.per_stage) return timed(l2, [&] { session_.run(pass); });
        StageMarks marks(backend_);
        const double us = timed(l2, [&] { session_.run(pass, &marks); });
        for (const auto& [stage, total] : marks.totals()) {
          stage_samples[stage].push_back(total.us);
          stage_facts[stage] = {std::string(name_of(pass)), total.calls};
        }
        return us;
      };
      host_us_.clear();
      PassTiming timing{.name = std::string(name_of(pass)), .l2 = std::string(l2)};
      timing.time = sample_until_stable(options_.timing, backend_, sample, options_.stop);
      if (!host_us_.empty()) timing.host_us = median(host_us_);
      if (timing.host_us && backend_.device())
        timing.host_us_per_step = *timing.host_us / session_.buffers().dims.steps;
      result_.passes.push_back(std::move(timing));
      if (stopped()) return;
    }
    registry().each_sparse([&](const auto& stage) {  // host: the same samples, by stage
      const std::string name(stage.name);
      if (const auto found = stage_samples.find(name); found != stage_samples.end())
        result_.stages.push_back({.name = name,
                                  .pass = stage_facts[name].first,
                                  .l2 = std::string(l2),
                                  .calls = stage_facts[name].second,
                                  .time = stats_of(found->second)});
    });
  }

  SampleStats stats_of(const std::vector<double>& samples) const {
    const Summary s = summarize(samples);
    return {s.median, s.q1, s.q3, s.min, s.p95, samples, 0, s.relative_iqr() <= options_.timing.rel_iqr};
  }

  void time_stages_alone(std::string_view l2) {
    registry().each_sparse([&](const auto& stage) {
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        if (stopped()) return;
        CallCounter counter(stage.name);
        const auto work = [&] { session_.run_only(pass, stage.name, &counter); };
        std::unique_ptr<Recording> recording = session_.recorded() ? backend_.record(work) : nullptr;
        if (!recording) work();
        const int calls = counter.calls;
        if (calls == 0) continue;
        tell(fmt::format("time {}", stage.name));
        StageTiming timing{
            .name = std::string(stage.name), .pass = std::string(name_of(pass)), .l2 = std::string(l2), .calls = calls};
        timing.time = time_part(l2, [&] { recording ? recording->replay() : work(); });
        result_.stages.push_back(std::move(timing));
      }
    });
  }

  /// What the forward spends before its steps: not the sum of its stages, since launches of a recording follow each
  /// other without a gap or run beside each other.
  void time_prepare(std::string_view l2) {
    if (stopped()) return;
    tell("time prepare");
    const auto work = [&] { session_.run_prepare(); };
    const std::unique_ptr<Recording> recording = session_.recorded() ? backend_.record(work) : nullptr;
    PassTiming timing{.name = "prepare", .l2 = std::string(l2)};
    timing.time = time_part(l2, [&] { recording ? recording->replay() : work(); });
    result_.passes.push_back(std::move(timing));
  }

  SampleStats time_part(std::string_view l2, const std::function<void()>& work) {
    TimingSpec spec = options_.timing;
    spec.max_seconds = std::max(0.05, spec.max_seconds / 10);
    return sample_until_stable(
        spec, backend_, [&] { return timed(l2, work); }, options_.stop);
  }

  struct CallCounter final : StageObserver {
    explicit CallCounter(std::string_view wanted_) : wanted(wanted_) {}
    void after(const StageCall& call) override { calls += call.stage == wanted ? 1 : 0; }
    std::string_view wanted;
    int calls = 0;
  };

  SparseSession& session_;
  const MeasureOptions& options_;
  Backend& backend_;
  MeasureResult result_;
  std::vector<double> host_us_;
};

}  // namespace

SampleStats sample_until_stable(const TimingSpec& timing, const Backend& backend, const Sample& sample,
                                const std::function<bool()>& stop) {
  SampleStats stats;
  const auto start = Clock::now();
  const auto out_of_time = [&] { return seconds_since(start) >= timing.max_seconds || (stop && stop()); };
  for (int i = 0; i < timing.warmup && !(i > 0 && out_of_time()); ++i) sample();
  Summary summary;
  for (;;) {
    stats.samples_us.push_back(sample());
    if (backend.clock_share() < timing.clock_threshold) ++stats.throttled;
    summary = summarize(stats.samples_us);
    stats.converged =
        static_cast<int>(stats.samples_us.size()) >= timing.min_samples && summary.relative_iqr() <= timing.rel_iqr;
    if (stats.converged || out_of_time()) break;
  }
  stats.median_us = summary.median, stats.q1_us = summary.q1, stats.q3_us = summary.q3, stats.min_us = summary.min,
  stats.p95_us = summary.p95;
  return stats;
}

MeasureResult measure(SparseSession& session, const MeasureOptions& options) {
  return Protocol(session, options).run();
}

}  // namespace sdm
