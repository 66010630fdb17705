#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "workload/dense.h"
#include "workload/sparse.h"

namespace sdm {

/// One entry of `checks`: the check's name and its options (spec 5.3). Every option has its default in place.
struct CheckSpec {
  enum class Kind : std::uint8_t {
    replay,
    oracle,
    repeat,
    agree,
    invariance,
    bank_restored,
    guards,
    disturbed,
    half_device,
    fragmented,
    process,
    poison,
    baselines
  };
  Kind kind = Kind::replay;
  bool lockstep = false;   ///< replay: compare after every stage
  bool round_bank = true;  ///< oracle: round rows to the bank dtype at chunk ends
  bool ladder = false;     ///< agree: every variant is also repeated, with other geometries and launch modes
  std::int32_t runs = 3;   ///< repeat, disturbed, half_device, baselines
  std::vector<std::string>
      axes;  ///< invariance: chunk, batch, stream_order, threads, geometry, launch; empty: all that apply
};

struct TimingSpec {
  enum class L2 : std::uint8_t { cold, hot, both };
  std::int32_t min_samples = 20;
  std::int32_t warmup = 2;
  double max_seconds = 10;
  double rel_iqr = 0.01;
  L2 l2 = L2::cold;
  bool per_stage = true;
  double clock_threshold = 0.75;    ///< samples taken below this share of the boost clock are marked
  double case_timeout_seconds = 0;  ///< 0: none
};

enum class LaunchMode : std::uint8_t { automatic, eager, plan, pdl, graph, fused };

/// One expanded case: what runs, how it is checked and timed.
struct Case {
  std::string id;    ///< stable: config name plus the swept parameters, e.g. "smoke/chunk=32/writes=16"
  std::string name;  ///< the config's or the case's own name
  std::variant<SparseWorkload, DenseWorkload> workload;
  std::map<std::string, std::string> variants;  ///< stage or "*" -> variant name or "auto"
  LaunchMode launch = LaunchMode::automatic;
  std::vector<CheckSpec> checks;
  bool timed = false;
  TimingSpec timing;
  std::map<std::string, std::string> params;  ///< every workload parameter as text, for reports and matching
};

}  // namespace sdm
