// A config and, after a zero byte, --set overrides, one a line. What is accepted must survive the round trip through
// the effective config: same ids, same parameters.
#include <vector>

#include "config/expand.h"
#include "fuzz_input.h"

namespace sdm::fuzz {
namespace {

constexpr std::size_t kMostCases = 200;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

void round_trip(const std::vector<Case>& cases) {
  const std::string effective = effective_config_json(cases);
  const std::vector<Case> again = parse_cases(effective, "effective", {.max_cases = kMostCases});
  SDM_REQUIRE(again.size() == cases.size(), "{} cases became {}", cases.size(), again.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    SDM_REQUIRE(again[i].id == cases[i].id, "{} became {}", cases[i].id, again[i].id);
    SDM_REQUIRE(again[i].params == cases[i].params, "{} has other parameters", cases[i].id);
  }
}

void one(std::string_view input) {
  const std::size_t split = std::min(input.find('\0'), input.size());
  ExpandOptions options{.max_cases = kMostCases};
  options.overrides = lines_of(input.substr(std::min(split + 1, input.size())));
  std::vector<Case> cases;
  if (!accepted([&] { cases = parse_cases(input.substr(0, split), "fuzz.json", options); })) return;
  SDM_REQUIRE(!cases.empty(), "a config without a case was accepted");
  round_trip(cases);
}

}  // namespace
}  // namespace sdm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sdm::fuzz::one(sdm::fuzz::text_of(data, size));
  return 0;
}
