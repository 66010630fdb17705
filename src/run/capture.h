#pragma once
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/parallel.h"
#include "config/config.h"

namespace sdm {

/// Writes the inputs of a sparse case as a safetensors file that a workload with distribution {kind: replay} reads back
/// (docs/captured_inputs.md): tensors of spec 2.2, the workload's parameters as metadata. Throws UserError where the
/// path cannot be written or exists without `force`, Unsupported for a dense case.
void write_inputs(const Case& c, const std::string& path, Parallel& threads, bool force);

/// Runs one training step of the case on the host replay and writes everything that it makes: every stage's outputs
/// under their own names, bank_after_forward, bank (after the backward) and grad (the gradient of the initial bank).
void write_outputs(const Case& c, const std::string& path, Parallel& threads, bool force);

/// The case as a replay of `path`: the same id and sizes, its inputs from the file.
Case replay_of(Case c, const std::string& path);

/// A file name without folders for a case id: '/' and what a file system may refuse become '_'.
std::string file_name_of(const std::string& id);

}  // namespace sdm
