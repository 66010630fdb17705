#pragma once
#include "io/safetensors.h"
#include "run/conform.h"

namespace sdm {

/// True for a stored case of the dense workload (spec 4).
bool is_dense_case(const SafetensorsFile& file);

/// Judges the stored outputs and those of the replay and, where `gpu` is given, of every variant: each against the
/// steps of spec 4 in double, and each variant's against the stored ones within what rounding to io explains. `equal`
/// means within bounds here. Throws UserError for a damaged file.
std::vector<ConformRow> conform_dense(const SafetensorsFile& file, Backend* gpu, Parallel& threads);

}  // namespace sdm
