// Which flags of `run` go together: none may silently do nothing.
#include <fmt/format.h>

#include "base/error.h"
#include "cli/commands.h"

namespace sdm {

void check_flags(const RunOptions& o) {
  const bool ab = !o.ab.empty(), price = o.max_determinism_cost.has_value();
  struct Pair {
    bool given;
    const char *first, *second, *why;
  };
  const Pair pairs[] = {
      {o.isolate && o.profile, "--isolate", "--profile", "a profiler looks at one process"},
      {ab && o.isolate, "--ab", "--isolate", "both forms are sampled in turn in one process"},
      {ab && o.profile, "--ab", "--profile", "profiled launches are not timed"},
      {ab && o.no_timing, "--ab", "--no-timing", "an A/B compares times"},
      {ab && o.calibrate, "--ab", "--calibrate", "an A/B of a form against itself shows the spread"},
      {ab && !o.geometry.empty(), "--ab", "--geometry", "an A/B runs with the variants' own geometry"},
      {ab && !o.plant.empty(), "--ab", "--plant", "an A/B runs no checks"},
      {ab && price, "--ab", "--max-determinism-cost", "an A/B runs no checks"},
      {o.profile && o.calibrate, "--profile", "--calibrate", "profiled launches are not timed"},
      {o.profile && price, "--profile", "--max-determinism-cost", "a profiled run makes no checks"},
      {o.profile && !o.plant.empty(), "--profile", "--plant", "a profiled run makes no checks"},
      {o.no_timing && o.calibrate, "--no-timing", "--calibrate", "the spread is one of times"},
      {o.no_checks && price, "--no-checks", "--max-determinism-cost", "the limit is one of the checks"},
  };
  for (const Pair& pair : pairs)
    if (pair.given) throw UserError(fmt::format("{} and {} do not go together: {}", pair.first, pair.second, pair.why));
}

}  // namespace sdm
