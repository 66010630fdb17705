#include "report/compare_merge.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "report/rows.h"
#include "report/sample_stats.h"

namespace sdm {
namespace {

void pool(SampleStats& into, const SampleStats& more) {
  std::vector<double> samples = into.samples_us;
  samples.insert(samples.end(), more.samples_us.begin(), more.samples_us.end());
  std::erase_if(samples, [](double us) { return !std::isfinite(us); });
  into = sample_stats(std::move(samples), into.throttled + more.throttled, into.converged && more.converged);
}

/// Pools timings of the same key; a derived value stays with the run that gave it first.
template <typename Timing, typename Same>
void pool_all(std::vector<Timing>& into, const std::vector<Timing>& more, Same&& same) {
  for (const Timing& timing : more) {
    const auto known = std::find_if(into.begin(), into.end(), [&](const Timing& t) { return same(t, timing); });
    if (known == into.end())
      into.push_back(timing);
    else
      pool(known->time, timing.time);
  }
}

void merge_digests(MergedCase& into, const CaseResult& run) {
  for (const auto& [stage, tensors] : run.digests)
    for (const auto& [tensor, hex] : tensors) {
      const auto [known, fresh] = into.result.digests[stage].emplace(tensor, hex);
      const std::string name = fmt::format("{}/{}", stage, tensor);
      if (!fresh && known->second != hex && std::find(into.torn.begin(), into.torn.end(), name) == into.torn.end())
        into.torn.push_back(name);
    }
}

int rank(CaseStatus status) { return status == CaseStatus::failed ? 2 : status == CaseStatus::ok ? 1 : 0; }

void merge_run(MergedCase& into, const CaseResult& run) {
  CaseResult& result = into.result;
  ++into.runs;
  if (const auto keys = differing_keys(result.params, run.params); !keys.empty()) {
    into.other_params = keys;
    return;
  }
  const bool first_ok =
      run.status == CaseStatus::ok && result.status != CaseStatus::ok && result.status != CaseStatus::failed;
  if (rank(run.status) > rank(result.status)) result.status = run.status, result.reason = run.reason;
  merge_digests(into, run);
  if (run.aa_spread) result.aa_spread = std::max(result.aa_spread.value_or(0), *run.aa_spread);
  if (run.status != CaseStatus::ok) return;
  if (first_ok) {
    result.passes = run.passes, result.stages = run.stages, result.variants = run.variants;
    result.peak_memory_bytes = run.peak_memory_bytes;
    return;
  }
  pool_all(result.passes, run.passes, [](const auto& a, const auto& b) { return a.name == b.name && a.l2 == b.l2; });
  pool_all(result.stages, run.stages,
           [](const auto& a, const auto& b) { return a.name == b.name && a.pass == b.pass && a.l2 == b.l2; });
}

/// The name of the device that a case ran on.
std::string device_name(const Report& report, const CaseResult& run) {
  for (const DeviceInfo& device : report.devices)
    if (!run.device.empty() && (device.uuid == run.device || (device.uuid.empty() && device.kind == run.device)))
      return device.name;
  return report.devices.empty() ? run.device : report.devices.front().name;
}

}  // namespace

const MergedCase* MergedSide::find(const std::string& id) const {
  const auto found = std::find_if(cases.begin(), cases.end(), [&](const MergedCase& c) { return c.result.id == id; });
  return found == cases.end() ? nullptr : &*found;
}

std::vector<std::string> differing_keys(const std::map<std::string, std::string>& a,
                                        const std::map<std::string, std::string>& b) {
  std::set<std::string> keys;
  for (const auto& [key, value] : a)
    if (const auto found = b.find(key); found == b.end() || found->second != value) keys.insert(key);
  for (const auto& [key, value] : b)
    if (!a.contains(key)) keys.insert(key);
  return {keys.begin(), keys.end()};
}

MergedSide merge_reports(const std::vector<Report>& reports, const std::vector<std::string>& files) {
  SDM_REQUIRE(reports.size() == files.size(), "{} reports of {} files", reports.size(), files.size());
  MergedSide side;
  side.files = files;
  std::map<std::string, std::size_t> places;
  for (const Report& report : reports) {
    side.titles.push_back(title_line(report));
    side.argv = report.run.argv;
    for (const CaseResult& run : report.cases) {
      const auto contract = run.geometry.find("contract_version");
      const int version =
          contract == run.geometry.end() ? report.tool.contract_version : static_cast<int>(contract->second);
      const auto [place, fresh] = places.emplace(run.id, side.cases.size());
      if (fresh)
        side.cases.push_back({.result = run, .runs = 1, .device = device_name(report, run)});
      else
        merge_run(side.cases[place->second], run);
      side.cases[place->second].contracts.insert(version);
      side.devices.insert(device_name(report, run));
      side.contracts.insert(version);
    }
  }
  // A run that was not ok says nothing about time.
  for (MergedCase& merged : side.cases)
    if (rank(merged.result.status) == 0) merged.result.passes.clear(), merged.result.stages.clear();
  return side;
}

}  // namespace sdm
