#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "workload/sparse.h"

namespace sdm {

/// Result files carry this; a reader refuses other majors by name.
inline constexpr int kResultSchema = 1;

/// Median, quartiles and extremes of a set of samples, microseconds. Never a lone mean.
struct SampleStats {
  double median_us = 0, q1_us = 0, q3_us = 0, min_us = 0, p95_us = 0;
  std::vector<double> samples_us;
  int throttled = 0;       ///< samples taken below the clock threshold (kept, marked)
  bool converged = false;  ///< the relative interquartile range reached the asked bound before the time limit
  friend bool operator==(const SampleStats&, const SampleStats&) = default;
};

/// One pass (forward or backward) of a case.
struct PassTiming {
  std::string name;  ///< "forward" | "backward" | "prepare", the part of the forward before its steps
  std::string l2;    ///< "cold" | "hot" | "host" (CPU replay)
  SampleStats time;
  std::optional<double> host_us;      ///< median host wall time of enqueueing the pass
  std::optional<double> bytes_moved;  ///< by the stated model (unique rows once)
  std::optional<double> flops;
  std::optional<double> bytes_per_second;
  std::optional<double> host_us_per_step;  ///< host_us over the steps of the pass; missing where nothing is launched
  friend bool operator==(const PassTiming&, const PassTiming&) = default;
};

/// One stage, summed over its calls in a pass.
struct StageTiming {
  std::string name, pass, l2;
  int calls = 0;
  SampleStats time;
  std::optional<double> bytes_moved, flops, bytes_per_second, roof_percent;
  friend bool operator==(const StageTiming&, const StageTiming&) = default;
};

struct CheckResult {
  enum class Status : std::uint8_t { passed, failed, skipped, unsupported, error, not_run };
  std::string name;
  Status status = Status::passed;
  std::string detail;  ///< a sentence; for `passed` what was compared
  std::string rerun;   ///< for `failed`: the command that repeats just this case
  friend bool operator==(const CheckResult&, const CheckResult&) = default;
};

struct ResolvedVariant {
  std::string name;    ///< "replay" on the CPU
  std::string launch;  ///< launch shape in words, "" on the CPU
  std::string guarantee;
  friend bool operator==(const ResolvedVariant&, const ResolvedVariant&) = default;
};

constexpr std::string_view name_of(CheckResult::Status status) {
  constexpr std::string_view names[] = {"passed", "failed", "skipped", "unsupported", "error", "not_run"};
  return names[static_cast<std::size_t>(status)];
}

/// How far the bits of a stage were seen to hold. Each level includes those before it; docs/determinism.md says which
/// checks a level needs.
enum class DeterminismLevel : std::uint8_t { not_guaranteed, run_to_run, geometry, launch_mode, cpu_equal };

constexpr std::string_view name_of(DeterminismLevel level) {
  constexpr std::string_view names[] = {"not_guaranteed", "run_to_run", "geometry", "launch_mode", "cpu_equal"};
  return names[static_cast<std::size_t>(level)];
}

/// One variant of one stage.
struct StageDeterminism {
  std::string stage, variant;
  bool chosen = true;  ///< it ran in the case itself; else it was run beside it, by `agree` or `baselines`
  DeterminismLevel level = DeterminismLevel::not_guaranteed;
  std::string reason;  ///< why the level is not higher; empty for cpu_equal
  friend bool operator==(const StageDeterminism&, const StageDeterminism&) = default;
};

/// One comparison that really ran, and the level that it speaks for.
struct DeterminismEvidence {
  std::string check;  ///< "repeat", "invariance (geometry)", ..
  DeterminismLevel level = DeterminismLevel::run_to_run;
  bool held = true;
  friend bool operator==(const DeterminismEvidence&, const DeterminismEvidence&) = default;
};

/// What order costs: a deterministic variant against the baseline without order, microseconds of all calls of a pass.
struct DeterminismPrice {
  std::string stage, pass, deterministic, baseline;
  double deterministic_us = 0, baseline_us = 0;
  bool varied = false;  ///< the baseline was seen to vary on this workload
  double ratio() const { return baseline_us > 0 ? deterministic_us / baseline_us : 0; }
  friend bool operator==(const DeterminismPrice&, const DeterminismPrice&) = default;
};

struct Determinism {
  std::vector<StageDeterminism> stages;  ///< in pipeline order, the chosen variant of a stage first
  std::vector<DeterminismEvidence> evidence;
  std::vector<DeterminismPrice> prices;
  friend bool operator==(const Determinism&, const Determinism&) = default;
};

enum class CaseStatus : std::uint8_t { ok, failed, skipped, oom, timeout, error, not_run };

constexpr std::string_view name_of(CaseStatus status) {
  constexpr std::string_view names[] = {"ok", "failed", "skipped", "oom", "timeout", "error", "not_run"};
  return names[static_cast<std::size_t>(status)];
}

struct CaseResult {
  std::string id, name;
  std::map<std::string, std::string> params;
  CaseStatus status = CaseStatus::not_run;
  std::string reason;                               ///< empty only for ok
  std::string device;                               ///< "cpu" or the GPU's uuid
  std::string launch;                               ///< launch mode in words: "graph", "eager", "host", ..
  std::map<std::string, ResolvedVariant> variants;  ///< stage -> choice
  std::vector<CheckResult> checks;
  std::map<std::string, std::map<std::string, std::string>> digests;  ///< stage -> tensor -> XXH3-128 hex
  std::vector<PassTiming> passes;
  std::vector<StageTiming> stages;
  std::optional<std::uint64_t> peak_memory_bytes;
  std::optional<double> timer_floor_us;
  std::optional<double> wall_seconds;
  std::optional<double> aa_spread;  ///< run --calibrate: relative, between two interleaved runs of this very case
  std::map<std::string, std::int64_t>
      geometry;  ///< bit-relevant parameters: gather_groups, gather_grad_groups, contract_version, ..
  std::optional<WorkloadFacts> facts;
  std::optional<Determinism> determinism;  ///< missing: no check spoke about it, or an older file
  friend bool operator==(const CaseResult&, const CaseResult&) = default;
};

struct ToolInfo {
  std::string version, git_sha, build_type, compiler, toolkit, flags;
  bool dirty = false;
  std::vector<std::string> sm_list;
  int contract_version = 0;
  friend bool operator==(const ToolInfo&, const ToolInfo&) = default;
};

struct DeviceInfo {
  std::string kind;  ///< "cpu" | "cuda"
  std::string name, uuid, pci_id, driver;
  std::optional<double> sm_clock_mhz, max_sm_clock_mhz, memory_clock_mhz, temperature_c;
  std::vector<std::string> throttle_reasons;
  std::optional<int> other_processes;
  std::optional<int> compute_capability;  ///< 90
  std::optional<int> multiprocessors;
  std::optional<std::uint64_t> memory_bytes, l2_bytes;
  friend bool operator==(const DeviceInfo&, const DeviceInfo&) = default;
};

struct RunInfo {
  std::string id, started_at, finished_at;  ///< RFC 3339, UTC
  std::vector<std::string> argv;
  std::string status;  ///< "running" | "finished" | "interrupted"
  friend bool operator==(const RunInfo&, const RunInfo&) = default;
};

struct RoofPoint {
  std::string kind;  ///< "copy" | "row_read" | "row_read_write"
  std::int64_t row_bytes = 0;
  double bytes_per_second = 0;
  friend bool operator==(const RoofPoint&, const RoofPoint&) = default;
};

/// A result file (spec 5.5).
struct Report {
  int schema = kResultSchema;
  ToolInfo tool;
  RunInfo run;
  std::map<std::string, std::string> environment;
  std::vector<DeviceInfo> devices;
  std::vector<RoofPoint> roof;
  std::string effective_config;  ///< the config after defaults, --set and sweeps, as JSON text
  std::vector<CaseResult> cases;
  friend bool operator==(const Report&, const Report&) = default;
};

}  // namespace sdm
