#pragma once
#include <map>
#include <string>

#include "report/result.h"

namespace sdm {

/// Version, commit, compiler, flags and contract of this build.
ToolInfo tool_info();

/// The few environment variables that can change a measurement (allow-listed) and the host's name and kernel.
std::map<std::string, std::string> environment_facts();

/// Now, RFC 3339 in UTC.
std::string timestamp_now();

}  // namespace sdm
