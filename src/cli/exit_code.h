#pragma once

namespace sdm {

/// Exit codes (spec 5.5).
enum class ExitCode : int {
  ok = 0,
  check_failed = 1,
  usage = 2,
  regression = 3,
  inconclusive = 4,
  could_not_run = 5,
  context_lost = 6,
  no_gpu = 77,
  interrupted = 130,
  terminated = 143,
};

}  // namespace sdm
