#include "check/ledger.h"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/registry.h"

namespace sdm {
namespace {

constexpr DeterminismLevel kLadder[] = {DeterminismLevel::run_to_run, DeterminismLevel::geometry,
                                        DeterminismLevel::launch_mode, DeterminismLevel::cpu_equal};

/// The highest level that a guarantee promises.
DeterminismLevel most_of(std::string_view guarantee) {
  if (guarantee == name_of(Guarantee::approximate)) return DeterminismLevel::not_guaranteed;
  return guarantee == name_of(Guarantee::repeatable) ? DeterminismLevel::launch_mode : DeterminismLevel::cpu_equal;
}

}  // namespace

void DeterminismLedger::note(std::string check, DeterminismLevel level, const Difference& difference) {
  entries_.push_back({{std::move(check), level, difference.stages.empty()}, difference});
}

StageDeterminism DeterminismLedger::judge(const std::string& stage, const ResolvedVariant& variant,
                                          bool host_replay) const {
  StageDeterminism row{.stage = stage, .variant = variant.name};
  for (const DeterminismLevel level : kLadder) {
    bool seen = host_replay && level >= DeterminismLevel::launch_mode;
    for (const Entry& entry : entries_) {
      if (entry.evidence.level != level) continue;
      seen = true;
      if (!entry.difference.stages.contains(stage)) continue;
      row.reason = fmt::format("differs in {}, first in {}", entry.evidence.check, entry.difference.where);
      return row;
    }
    if (level > most_of(variant.guarantee)) {
      row.reason = variant.guarantee + " by design";
      return row;
    }
    if (!seen) {
      row.reason = fmt::format("no check of this case speaks for {}", name_of(level));
      return row;
    }
    row.level = level;
  }
  return row;
}

bool DeterminismLedger::cpu_equal_seen() const {
  return std::any_of(entries_.begin(), entries_.end(), [](const Entry& entry) {
    return entry.evidence.level == DeterminismLevel::cpu_equal && entry.evidence.held;
  });
}

std::optional<Determinism> DeterminismLedger::finish(const std::map<std::string, ResolvedVariant>& variants,
                                                     bool host_replay) const {
  if (entries_.empty() && alternatives_.empty()) return std::nullopt;
  Determinism out;
  registry().each([&](const auto& stage) {
    const std::string name(stage.name);
    if (const auto chosen = variants.find(name); chosen != variants.end())
      out.stages.push_back(judge(name, chosen->second, host_replay));
    for (StageDeterminism row : alternatives_) {
      if (row.stage != name) continue;
      if (row.level == DeterminismLevel::cpu_equal && !cpu_equal_seen()) {
        row.level = DeterminismLevel::launch_mode;
        row.reason = "no check of this case compares the reference with the replay";
      }
      out.stages.push_back(std::move(row));
    }
  });
  for (const Entry& entry : entries_) out.evidence.push_back(entry.evidence);
  out.prices = prices_;
  return out;
}

}  // namespace sdm
