#include "pipeline/parts.h"

#include <algorithm>

#include "base/error.h"

namespace sdm {
namespace {

constexpr int kOncePerPass = 2;  ///< parts that are no steps, at most

}  // namespace

std::vector<StepRange> cut_steps(int steps, int most) {
  SDM_REQUIRE(steps >= 0 && most > 0, "{} steps in {} ranges", steps, most);
  const int length = std::max(2, (steps - 1) / most + 1);
  std::vector<StepRange> ranges;
  for (int first = 0; first < steps; first += length)
    ranges.push_back({first, first + std::min(length, steps - first)});
  return ranges;
}

std::vector<PassPart> forward_parts(const SparsePlan& plan, const SparseBuffers& b, int most) {
  std::vector<PassPart> parts = {[&](Executor& ex) { prepare(ex, plan, b); }};
  for (const StepRange range : cut_steps(b.dims.steps, most - kOncePerPass))
    parts.emplace_back([&, range](Executor& ex) { forward_steps(ex, plan, b, range); });
  return parts;
}

std::vector<PassPart> backward_parts(const SparsePlan& plan, const SparseBuffers& b, int most) {
  std::vector<StepRange> ranges = cut_steps(b.dims.steps, most - kOncePerPass);
  std::reverse(ranges.begin(), ranges.end());
  std::vector<PassPart> parts = {[&](Executor& ex) { begin_backward(ex, plan, b); }};
  for (const StepRange range : ranges)
    parts.emplace_back([&, range](Executor& ex) { backward_steps(ex, plan, b, range); });
  parts.emplace_back([&](Executor& ex) { finish_backward(ex, plan, b); });
  return parts;
}

}  // namespace sdm
