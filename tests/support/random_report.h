#pragma once
#include <cmath>
#include <limits>
#include <random>
#include <string>

#include "report/result.h"
#include "report/sample_stats.h"

namespace sdm {

/// Reports with random contents: every optional now and then missing, every list now and then empty, text with quotes,
/// line breaks and letters beyond ASCII.
class RandomReport {
 public:
  explicit RandomReport(unsigned seed) : random_(seed) {}

  Report make() {
    Report report;
    report.tool = {.version = text(),
                   .git_sha = text(),
                   .build_type = text(),
                   .compiler = text(),
                   .toolkit = text(),
                   .flags = text(),
                   .dirty = coin(),
                   .sm_list = texts(),
                   .contract_version = below(100)};
    report.run = {.id = text(), .started_at = text(), .finished_at = text(), .argv = texts(), .status = text()};
    report.environment = map();
    for (int i = below(3); i > 0; --i) report.devices.push_back(device());
    for (int i = below(3); i > 0; --i) report.roof.push_back({text(), wide(), positive()});
    if (coin()) report.effective_config = R"({"schema":1,"workload":{"seed":18446744073709551615,"a":[1.5,null]}})";
    for (int i = below(5); i > 0; --i) report.cases.push_back(one_case());
    return report;
  }

  CaseResult one_case() {
    CaseResult out;
    out.id = text() + std::to_string(random_());
    out.name = text();
    out.params = map();
    out.status = static_cast<CaseStatus>(below(7));
    out.reason = text();
    out.device = text();
    out.launch = text();
    for (int i = below(3); i > 0; --i) out.variants[text()] = {text(), text(), text()};
    for (int i = below(4); i > 0; --i)
      out.checks.push_back({text(), static_cast<CheckResult::Status>(below(6)), text(), text()});
    for (int i = below(3); i > 0; --i) out.digests[text()] = map();
    for (int i = below(3); i > 0; --i)
      out.passes.push_back({text(), text(), time(), maybe(), maybe(), maybe(), maybe(), maybe()});
    for (int i = below(4); i > 0; --i)
      out.stages.push_back({text(), text(), text(), below(1000), time(), maybe(), maybe(), maybe(), maybe()});
    if (coin()) out.peak_memory_bytes = static_cast<std::uint64_t>(wide()) * 2 + 1;
    out.timer_floor_us = maybe();
    out.wall_seconds = maybe();
    out.aa_spread = maybe();
    for (int i = below(3); i > 0; --i) out.geometry[text()] = wide();
    if (coin())
      out.facts =
          WorkloadFacts{wide(), wide(), wide(), wide(), positive(), positive(), wide(), wide(), wide(), positive()};
    if (coin()) out.determinism = determinism();
    return out;
  }

 private:
  Determinism determinism() {
    Determinism out;
    const auto level = [this] { return static_cast<DeterminismLevel>(below(5)); };
    for (int i = below(4); i > 0; --i) out.stages.push_back({text(), text(), coin(), level(), text()});
    for (int i = below(4); i > 0; --i) out.evidence.push_back({text(), level(), coin()});
    for (int i = below(3); i > 0; --i)
      out.prices.push_back({text(), text(), text(), text(), positive(), positive(), coin()});
    return out;
  }

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }
  bool coin() { return below(2) == 0; }
  double positive() { return std::ldexp(std::uniform_real_distribution<double>(1, 2)(random_), below(60) - 20); }
  std::optional<double> maybe() { return coin() ? std::optional(positive()) : std::nullopt; }
  std::int64_t wide() {
    return static_cast<std::int64_t>((static_cast<std::uint64_t>(random_()) << 32 | random_()) >> (1 + below(60)));
  }

  std::string text() {
    static const std::string pieces[] = {"gather", " ",  "\"", "\n", ",", "µs", "<b>", "&",   "|",
                                         "日本",   "\\", "x",  "=",  "1", "\t", "'",   "]]>", "\x01"};
    std::string out;
    for (int i = below(6); i > 0; --i) out += pieces[below(static_cast<int>(std::size(pieces)))];
    return out;
  }
  std::vector<std::string> texts() {
    std::vector<std::string> out;
    for (int i = below(4); i > 0; --i) out.push_back(text());
    return out;
  }
  std::map<std::string, std::string> map() {
    std::map<std::string, std::string> out;
    for (int i = below(4); i > 0; --i) out[text()] = text();
    return out;
  }
  SampleStats time() {
    std::vector<double> samples;
    for (int i = below(5); i > 0; --i) samples.push_back(positive());
    const int count = static_cast<int>(samples.size());
    return sample_stats(std::move(samples), count > 0 ? below(count) : 0, coin());
  }
  DeviceInfo device() {
    DeviceInfo out;
    out.kind = text(), out.name = text(), out.uuid = text(), out.pci_id = text(), out.driver = text();
    out.sm_clock_mhz = maybe(), out.max_sm_clock_mhz = maybe(), out.memory_clock_mhz = maybe();
    out.temperature_c = maybe();
    out.throttle_reasons = texts();
    if (coin()) out.other_processes = below(9);
    if (coin()) out.compute_capability = 90;
    if (coin()) out.multiprocessors = below(200);
    if (coin()) out.memory_bytes = std::numeric_limits<std::uint64_t>::max();
    if (coin()) out.l2_bytes = static_cast<std::uint64_t>(wide());
    return out;
  }

  std::mt19937 random_;
};

}  // namespace sdm
