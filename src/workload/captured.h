#pragma once
#include <string>

#include "workload/sparse.h"

namespace sdm {

/// Metadata of a file with captured inputs (docs/captured_inputs.md): this key and version, and the workload's sizes.
inline constexpr const char* kCapturedFormat = "sdm_bench_inputs";
inline constexpr const char* kCapturedVersion = "1";

/// Reads the operator's inputs from workload.distribution.file, a safetensors file with the names and shapes of
/// spec 2.2. Strict: throws UserError, one sentence with the file and the first thing wrong, where a tensor is missing,
/// has another shape or dtype, a value cannot be held by the workload's dtype, a row lies outside its stream, a token
/// names a slot twice (token and slot are named), a number is not finite, a gate is above 0, a beta outside [0, 1], or
/// padding is not zero. d_reading, bank and d_final_bank may be missing; they are then empty in the result.
SparseInputs load_captured_inputs(const SparseWorkload& workload);

}  // namespace sdm
