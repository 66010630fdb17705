#pragma once
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>

#include "base/text.h"
#include "config/config.h"
#include "report/result.h"
#include "run/case_runner.h"

namespace sdm {

/// Thrown between phases once the case's time is up or the user wants out.
struct Abandoned {
  CaseStatus status;
  std::string reason;
};

class Deadline {
 public:
  Deadline(double seconds, const std::function<bool()>& stop) : seconds_(seconds), stop_(stop) {}
  bool passed() const { return (stop_ && stop_()) || (seconds_ > 0 && elapsed() > seconds_); }
  void check() const {
    if (stop_ && stop_()) throw Abandoned{CaseStatus::not_run, "interrupted"};
    if (passed()) throw Abandoned{CaseStatus::timeout, fmt::format("the case's time limit of {} s is over", seconds_)};
  }
  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  double seconds_;
  const std::function<bool()>& stop_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

inline CheckSpec quick_form(CheckSpec spec) {
  spec.runs = 1;
  return spec;
}

inline TimingSpec quick_form(TimingSpec spec) {
  spec.min_samples = std::min(spec.min_samples, 3);
  spec.warmup = std::min(spec.warmup, 1);
  spec.max_seconds = std::min(spec.max_seconds, 1.0);
  return spec;
}

inline void require_memory(std::uint64_t needed, std::uint64_t available) {
  if (needed > available)
    throw Abandoned{CaseStatus::oom, fmt::format("needs {}, {} are free", human_bytes(static_cast<double>(needed)),
                                                 human_bytes(static_cast<double>(available)))};
}

/// A failed check fails the case; the first one is its reason.
inline void add_check(CheckResult check, CaseResult& result) {
  if (check.status == CheckResult::Status::failed) {
    result.status = CaseStatus::failed;
    if (result.reason.empty()) result.reason = check.name + ": " + check.detail;
  }
  result.checks.push_back(std::move(check));
}

/// --max-determinism-cost needs prices: adds the check that takes them where it is missing.
inline void add_price_check(const std::optional<double>& most, std::vector<CheckSpec>& specs) {
  const auto prices = [](const CheckSpec& spec) { return spec.kind == CheckSpec::Kind::baselines; };
  if (most && std::none_of(specs.begin(), specs.end(), prices)) specs.push_back({.kind = CheckSpec::Kind::baselines});
}

/// The check `determinism_cost`: fails at the first price above the limit.
inline CheckResult judge_prices(const std::vector<DeterminismPrice>& prices, double most) {
  CheckResult verdict{.name = "determinism_cost",
                      .status = CheckResult::Status::skipped,
                      .detail = "no baseline without a fixed order was timed here"};
  for (const DeterminismPrice& price : prices) {
    const std::string sentence = fmt::format("{}/{} takes {:.3f} times the time of {} in the {}", price.stage,
                                             price.deterministic, price.ratio(), price.baseline, price.pass);
    verdict.detail = verdict.status == CheckResult::Status::skipped ? sentence : verdict.detail + "; " + sentence;
    verdict.status = CheckResult::Status::passed;
    if (price.ratio() <= most) continue;
    verdict.status = CheckResult::Status::failed;
    verdict.detail = fmt::format("{}; --max-determinism-cost allows {}", sentence, most);
    break;
  }
  return verdict;
}

}  // namespace sdm
