#include "run/tool_info.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <chrono>
#include <cstdlib>

#include "backend/backend.h"
#include "git_info.h"
#include "numerics/fp.h"

namespace sdm {

ToolInfo tool_info() {
  ToolInfo info;
  info.version = SDM_VERSION;
  info.git_sha = kGitSha;
  info.dirty = kGitDirty;
  info.build_type = SDM_BUILD_TYPE;
  info.compiler = SDM_COMPILER;
  info.flags = SDM_FLAGS;
  info.toolkit = cuda_toolkit_version();
  info.sm_list = cuda_architectures();
  info.contract_version = kContractVersion;
  return info;
}

std::map<std::string, std::string> environment_facts() {
  std::map<std::string, std::string> facts;
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING",
                           "CUDA_MODULE_LOADING", "OMP_NUM_THREADS", "CI"})
    if (const char* value = std::getenv(name)) facts[name] = value;
  utsname system{};
  if (uname(&system) == 0) {
    facts["kernel"] = fmt::format("{} {}", system.sysname, system.release);
    facts["machine"] = system.machine;
  }
  return facts;
}

std::string timestamp_now() {
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(std::chrono::system_clock::now())));
}

}  // namespace sdm
