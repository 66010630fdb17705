#pragma once
#include "run/dense_checks.h"

namespace sdm {

/// The checks of a dense case that run it again in other surroundings: poison, disturbed, half_device, fragmented,
/// process, baselines (dq without an order against dq in tile order).
CheckResult run_dense_surroundings(const CheckSpec& spec, DenseCheckContext& context);

/// Other launch geometries and, on a GPU, a recording instead of a launch. Empty: the bits stayed; else a sentence.
std::string dense_launch_difference(DenseCheckContext& context);

/// A run from restored state and its digests.
std::map<std::string, std::string> run_dense_again(DenseSession& session, std::uint8_t poison = Arena::kPoisonByte);

/// The first tensor with other bits than the reference, of those whose bits are promised; empty: all equal. Notes the
/// comparison.
std::string compare_dense(DenseCheckContext& context, const std::string& check, DeterminismLevel level,
                          const std::map<std::string, std::string>& again);

}  // namespace sdm
