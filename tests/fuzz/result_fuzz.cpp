// A result file, or a journal (its lines). What is accepted must be written and read again without a change, rendered
// in every format, and compared with itself without a difference.
#include <vector>

#include "fuzz_input.h"
#include "report/compare.h"
#include "report/json.h"
#include "report/render.h"

namespace sdm::fuzz {
namespace {

void use(const Report& report) {
  const std::string text = to_json(report);
  SDM_REQUIRE(to_json(report_from_json(text, "again.json")) == text, "a result changed on its way through a file");
  for (const char* format : {"table", "json", "md", "csv", "jsonl", "junit", "gbench", "bmf", "html"})
    accepted([&] { render(report, format, {true}); });
  accepted([&] {
    const MergedSide side = merge_reports({report}, {"a.json"});
    const Comparison same = compare(side, side, {});
    SDM_REQUIRE(same.tally.slower == 0 && same.tally.faster == 0 && same.tally.digests_differ == 0,
                "a result differs from itself");
    for (const char* format : {"table", "md", "json", "junit"}) render_comparison(same, format, true, true);
  });
}

void one(std::string_view input) {
  Report report;
  if (accepted([&] { report = report_from_json(input, "fuzz.json"); })) use(report);
  std::vector<std::string> lines;
  for (std::size_t begin = 0, end = 0; (end = input.find('\n', begin)) != std::string_view::npos; begin = end + 1)
    if (end > begin) lines.emplace_back(input.substr(begin, end - begin));
  if (lines.size() > 1 && accepted([&] { report = report_from_journal(lines, "fuzz.journal"); })) use(report);
}

}  // namespace
}  // namespace sdm::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sdm::fuzz::one(sdm::fuzz::text_of(data, size));
  return 0;
}
