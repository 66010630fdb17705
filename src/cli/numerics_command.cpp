#include <fmt/format.h>

#include <chrono>

#include "backend/backend.h"
#include "base/interrupt.h"
#include "base/parallel.h"
#include "check/numerics.h"
#include "cli/commands.h"

namespace sdm {

/// One line a function: inputs, seconds, and the first difference if there is one.
ExitCode sweep_numerics(const NumericsOptions& options) {
  const std::unique_ptr<Backend> backend = open_device(options.device, false);
  if (!backend->device()) throw NoGpu("numerics compares the host with a GPU, and none was asked for");
  Parallel threads(options.threads);
  const std::unique_ptr<SweepSide> device = device_side(*backend, options.fault.value_or(sweep::kNoFault));
  std::string text = fmt::format("numerics of {} against the host\n", backend->info().name);
  bool equal = true;
  for (int i = 0; i < sweep::kFunctions && !interrupted(); ++i) {
    const auto start = std::chrono::steady_clock::now();
    const SweepVerdict verdict = sweep_function(static_cast<sweep::Function>(i), options.blocks, *device, threads);
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    equal = equal && verdict.difference.empty();
    text += fmt::format("{:<12}{:>14} inputs  {:6.2f} s  {}\n", sweep::name_of(verdict.function), verdict.inputs,
                        seconds.count(), verdict.difference.empty() ? "equal" : verdict.difference);
  }
  if (interrupted()) return static_cast<ExitCode>(128 + interrupted());
  emit(options.common, text);
  return equal ? ExitCode::ok : ExitCode::check_failed;
}

}  // namespace sdm
