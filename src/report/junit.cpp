#include "base/error.h"
#include "report/escape.h"
#include "report/render.h"
#include "report/rows.h"

namespace sdm {
namespace {

enum class Verdict { passed, failed, error, skipped };

Verdict verdict_of(CheckResult::Status status) {
  using Status = CheckResult::Status;
  switch (status) {
    case Status::passed: return Verdict::passed;
    case Status::failed: return Verdict::failed;
    case Status::error: return Verdict::error;
    case Status::skipped:
    case Status::unsupported:
    case Status::not_run: return Verdict::skipped;
  }
  return Verdict::error;
}

bool has_failed_check(const CaseResult& result) {
  for (const CheckResult& check : result.checks)
    if (check.status == CheckResult::Status::failed) return true;
  return false;
}

/// A case counts as a test of its own; where a check explains the failure, that check alone carries it.
Verdict verdict_of(const CaseResult& result) {
  switch (result.status) {
    case CaseStatus::ok: return Verdict::passed;
    case CaseStatus::failed: return has_failed_check(result) ? Verdict::passed : Verdict::failed;
    case CaseStatus::skipped:
    case CaseStatus::not_run: return Verdict::skipped;
    case CaseStatus::oom:
    case CaseStatus::timeout:
    case CaseStatus::error: return Verdict::error;
  }
  return Verdict::error;
}

struct Suite {
  std::string body;
  int tests = 0, failures = 0, errors = 0, skipped = 0;

  void add(const CaseResult& result, const std::string& name, double seconds, Verdict verdict, std::string_view status,
           const std::string& message, const std::string& rerun) {
    ++tests;
    body += fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"{:.6f}\"", xml_text(result.id),
                        xml_text(name), seconds);
    if (verdict == Verdict::passed) {
      body += "/>\n";
      return;
    }
    const std::string says = message.empty() ? std::string(status) : message;
    if (verdict == Verdict::skipped) {
      ++skipped;
      body += fmt::format(">\n      <skipped message=\"{}\"/>\n    </testcase>\n", xml_text(says));
      return;
    }
    const char* tag = verdict == Verdict::failed ? "failure" : "error";
    ++(verdict == Verdict::failed ? failures : errors);
    body += fmt::format(">\n      <{0} type=\"{1}\" message=\"{2}\">{3}</{0}>\n    </testcase>\n", tag, status,
                        xml_text(says), xml_text(rerun.empty() ? says : "rerun: " + rerun));
  }
};

}  // namespace

std::string render_junit(const Report& report, const RenderOptions&) {
  Suite suite;
  for (const CaseResult& result : report.cases) {
    suite.add(result, "run", result.wall_seconds.value_or(0), verdict_of(result), name_of(result.status), result.reason,
              "");
    for (const CheckResult& check : result.checks)
      suite.add(result, check.name, 0, verdict_of(check.status), name_of(check.status), check.detail, check.rerun);
  }
  const std::string counts =
      fmt::format("tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.6f}\"", suite.tests,
                  suite.failures, suite.errors, suite.skipped, tally(report).seconds.value_or(0));
  return fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {0}>\n"
      "  <testsuite name=\"sdm-bench\" timestamp=\"{1}\" {0}>\n{2}  </testsuite>\n</testsuites>\n",
      counts, xml_text(report.run.started_at), suite.body);
}

}  // namespace sdm
