// A comparison for other programs: JSON and JUnit.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "report/compare_text.h"
#include "report/escape.h"
#include "report/json_field.h"

namespace sdm {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kCompareSchema = 1;

Json side_json(const MergedSide& side) {
  return {{"files", side.files}, {"devices", side.devices}, {"contract_versions", side.contracts}};
}

Json measured_json(const Measured& side) {
  if (!side.value) return nullptr;
  return {{"value", *side.value}, {"q1", side.q1}, {"q3", side.q3}, {"samples", side.samples}};
}

Json row_json(const CompareRow& row) {
  return {{"pass", text_or_null(row.pass)},
          {"stage", text_or_null(row.stage)},
          {"l2", text_or_null(row.l2)},
          {"metric", name_of(row.metric)},
          {"base", measured_json(row.base)},
          {"new", measured_json(row.now)},
          {"relative_change", row.relative ? Json(*row.relative) : Json(nullptr)},
          {"verdict", name_of(row.verdict)},
          {"note", text_or_null(row.note)}};
}

Json compared_json(const ComparedCase& c) {
  Json rows = Json::array();
  for (const CompareRow& row : c.rows) rows.push_back(row_json(row));
  const auto status = [](bool there, CaseStatus value) { return there ? Json(name_of(value)) : Json(nullptr); };
  return {{"id", c.id},
          {"presence", name_of(c.presence)},
          {"base_status", status(c.presence != Presence::added, c.base_status)},
          {"new_status", status(c.presence != Presence::missing, c.new_status)},
          {"comparable", c.comparable},
          {"reason", text_or_null(c.reason)},
          {"digests",
           {{"verdict", name_of(c.digests)},
            {"note", text_or_null(c.digest_note)},
            {"tensors", c.tensors},
            {"differing", c.differing},
            {"lost", c.lost}}},
          {"rows", std::move(rows)}};
}

Json tally_json(const CompareTally& t) {
  return {{"cases", t.cases},
          {"missing", t.missing},
          {"added", t.added},
          {"failed", t.failed},
          {"not_comparable", t.not_comparable},
          {"digests_equal", t.digests_equal},
          {"digests_differ", t.digests_differ},
          {"digests_not_compared", t.digests_not_compared},
          {"same", t.same},
          {"faster", t.faster},
          {"slower", t.slower},
          {"ambiguous", t.ambiguous},
          {"not_timed", t.not_timed}};
}

class ComparisonSuite {
 public:
  enum class Result { passed, failed, skipped };

  void add(const std::string& id, const std::string& name, Result result, const std::string& message) {
    ++tests_;
    body_ += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", xml_text(id), xml_text(name));
    if (result == Result::passed) {
      body_ += "/>\n";
      return;
    }
    ++(result == Result::failed ? failures_ : skipped_);
    body_ += fmt::format(">\n      <{} message=\"{}\"/>\n    </testcase>\n",
                         result == Result::failed ? "failure" : "skipped", xml_text(message));
  }

  std::string document() const {
    const std::string counts =
        fmt::format("tests=\"{}\" failures=\"{}\" errors=\"0\" skipped=\"{}\"", tests_, failures_, skipped_);
    return fmt::format(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n  <testsuite name=\"sdm-bench compare\" "
        "{0}>\n{1}"
        "  </testsuite>\n</testsuites>\n",
        counts, body_);
  }

 private:
  std::string body_;
  int tests_ = 0, failures_ = 0, skipped_ = 0;
};

/// In a gate whatever is open has failed; elsewhere it is skipped.
ComparisonSuite::Result open_result(const Comparison& comparison) {
  return comparison.rules.require_all ? ComparisonSuite::Result::failed : ComparisonSuite::Result::skipped;
}

void add_case(const Comparison& comparison, const ComparedCase& c, ComparisonSuite& suite) {
  using Result = ComparisonSuite::Result;
  const Result open = open_result(comparison);
  const std::string notes = join(case_notes(c), "; ");
  if (c.new_status == CaseStatus::failed)
    suite.add(c.id, "run", Result::failed, c.reason.empty() ? "failed in the new results" : c.reason);
  else if (c.presence == Presence::added && c.new_status == CaseStatus::ok)
    suite.add(c.id, "run", Result::skipped, notes);
  else
    suite.add(c.id, "run", c.comparable && c.lost.empty() ? Result::passed : open, notes);
  if (!c.comparable) return;
  suite.add(c.id, "digests",
            c.digests == DigestVerdict::equal    ? Result::passed
            : c.digests == DigestVerdict::differ ? Result::failed
                                                 : open,
            digest_text(c));
  for (const CompareRow& row : c.rows) {
    const bool plain = row.metric == Metric::median_us;
    const std::string name = plain ? place_text(row) : fmt::format("{} {}", place_text(row), name_of(row.metric));
    const std::string message =
        fmt::format("{}: {} -> {} {} {}", name_of(row.verdict), value_text(row.base, row.metric),
                    value_text(row.now, row.metric), change_text(row), row.note);
    suite.add(c.id, name,
              row.verdict == Verdict::slower                                   ? Result::failed
              : row.verdict == Verdict::same || row.verdict == Verdict::faster ? Result::passed
                                                                               : open,
              message);
  }
}

}  // namespace

std::string comparison_json(const Comparison& comparison) {
  Json cases = Json::array();
  for (const ComparedCase& c : comparison.cases) cases.push_back(compared_json(c));
  const Json out = {{"compare_schema", kCompareSchema},
                    {"outcome", name_of(comparison.outcome)},
                    {"base", side_json(comparison.base)},
                    {"new", side_json(comparison.now)},
                    {"refused", text_or_null(comparison.refused)},
                    {"tally", tally_json(comparison.tally)},
                    {"more_samples", text_or_null(comparison.more_samples)},
                    {"cases", std::move(cases)}};
  return out.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string comparison_junit(const Comparison& comparison) {
  ComparisonSuite suite;
  if (!comparison.refused.empty()) suite.add("compare", "device", ComparisonSuite::Result::failed, comparison.refused);
  for (const ComparedCase& c : comparison.cases) add_case(comparison, c, suite);
  return suite.document();
}

}  // namespace sdm
