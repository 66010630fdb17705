// A thresholds file. What is accepted gives limits that can be judged by: finite, not negative.
#include <cmath>

#include "fuzz_input.h"
#include "report/compare.h"

namespace sdm::fuzz {
namespace {

void one(std::string_view input) {
  CompareRules rules;
  if (!accepted([&] { read_thresholds(input, "fuzz.json", rules); })) return;
  SDM_REQUIRE(rules.min_samples >= 1 && std::isfinite(rules.max_rel_iqr) && rules.max_rel_iqr >= 0, "rules off limits");
  for (const char* stage : {"forward", "write", "gather"})
    for (int metric = 0; metric < kMetrics; ++metric) {
      const Limit limit = rules.limit(stage, static_cast<Metric>(metric));
      SDM_REQUIRE(std::isfinite(limit.relative) && limit.relative >= 0, "relative {}", limit.relative);
      SDM_REQUIRE(std::isfinite(limit.absolute) && limit.absolute >= 0, "absolute {}", limit.absolute);
      if (limit.direction == Direction::off) continue;
      std::string note;
      const Verdict same = judge({1, 1, 1, 9}, {1, 1, 1, 9}, limit, rules, note);
      SDM_REQUIRE(same == Verdict::same || same == Verdict::ambiguous, "equal values are {}", name_of(same));
    }
}

}  // namespace
}  // namespace sdm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sdm::fuzz::one(sdm::fuzz::text_of(data, size));
  return 0;
}
