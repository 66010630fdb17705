#pragma once
#include <fmt/format.h>

#include <map>
#include <string>

#include "base/error.h"
#include "kernels/stage.h"
#include "report/result.h"

namespace sdm {

/// Which variant the config asks of a stage: its own entry, else the one of "*", else "auto".
inline std::string wanted_variant(const std::map<std::string, std::string>& names, std::string_view stage) {
  if (const auto own = names.find(std::string(stage)); own != names.end()) return own->second;
  if (const auto all = names.find("*"); all != names.end()) return all->second;
  return "auto";
}

template <typename Params>
const Variant<Params>* find_variant(const Stage<Params>& stage, std::string_view name) {
  for (const Variant<Params>* variant : stage.variants)
    if (variant->name == name) return variant;
  return nullptr;
}

/// The named variant, or the first automatic one that accepts. A name under "*" that the stage does not know leaves it
/// to choose for itself. Throws Unsupported with the variant's own reason, or with every variant's reason where none
/// accepts.
template <typename Params>
StagePick<Params> pick_variant(const Stage<Params>& stage, const std::map<std::string, std::string>& names,
                               const Params& params, const Device& device) {
  const std::string name = wanted_variant(names, stage.name);
  const Variant<Params>* named = name == "auto" ? nullptr : find_variant(stage, name);
  if (named) {
    const std::string reason = named->refuse(params, device);
    if (!reason.empty()) throw Unsupported(fmt::format("{}/{} refuses this case: {}", stage.name, name, reason));
    return {&stage, named};
  }
  if (name != "auto" && names.contains(std::string(stage.name)))
    throw Unsupported(fmt::format("stage {} has no variant {}", stage.name, name));
  std::string reasons;
  for (const Variant<Params>* variant : stage.variants) {
    if (!variant->automatic || (variant->suits && !variant->suits(params, device))) continue;
    const std::string reason = variant->refuse(params, device);
    if (reason.empty()) return {&stage, variant};
    reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", variant->name, reason);
  }
  throw Unsupported(
      fmt::format("no variant of {} accepts this case ({})", stage.name, reasons.empty() ? "none is built" : reasons));
}

/// What a pick resolved to, for the result.
template <typename Params>
ResolvedVariant resolved_variant(const StagePick<Params>& pick, const Params& params, const LaunchContext& context) {
  const Variant<Params>* variant = pick.variant;
  if (!variant) return {"replay", "", "exact"};
  return {std::string(variant->name), variant->describe(params, context), std::string(name_of(variant->guarantee))};
}

}  // namespace sdm
