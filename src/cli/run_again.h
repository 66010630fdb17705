#pragma once
#include <string>
#include <vector>

#include "cli/options.h"

// The words that run cases of this run once more: for the user's shell, or for another process of this executable.
namespace sdm {

/// The command that runs the case again alone.
std::string rerun_command(const RunOptions& options, const std::string& id);

/// What another process must be told to run cases as this one does. device: as DeviceChoice::name, or a GPU's uuid.
std::vector<std::string> process_flags(const RunOptions& options, const std::string& device);

/// The flags that the process of one case needs to do what this one was asked for.
std::vector<std::string> child_flags(const RunOptions& options, const std::string& device);

}  // namespace sdm
