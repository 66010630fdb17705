// Every check proves itself: it passes on honest stages and fails, with the right sentence, on a planted fault.
#include "planted_faults.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "check/check.h"

namespace sdm::test {
namespace {

SparseWorkload small_workload() {
  SparseWorkload w;
  w.streams = 2, w.tokens = 22, w.chunk = 8, w.writes = 4, w.reads = 4, w.head_dim = 20, w.slots = 32;
  w.bank_dtype = w.grad_dtype = DType::f32;
  w.final_bank_gradient = true;
  w.seed = 5;
  return w;
}

/// Runs one check of the small workload with these stages, as `run` would.
CheckResult check_with(const Registry& stages, const CheckSpec& spec, bool on_device) {
  const std::unique_ptr<Backend> host = make_host_backend();
  PretendDevice pretended;
  Backend& backend = on_device ? static_cast<Backend&>(pretended) : *host;
  Parallel threads(2);
  const SparseWorkload workload = small_workload();
  const SparseInputs inputs = generate_inputs(workload, threads);
  const std::map<std::string, std::string> variants;
  SparseSession session(workload, inputs, backend, threads, variants, stages);
  const StepDigests reference = run_step(session);
  CheckContext context{workload, inputs,  variants,          LaunchMode::automatic, session, backend,
                       *host,    threads, reference.forward, reference.backward,    stages};
  return run_check(spec, context);
}

bool contains_word(std::string text, std::string_view word) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  std::string wanted(word);
  std::transform(wanted.begin(), wanted.end(), wanted.begin(), [](unsigned char c) { return std::tolower(c); });
  return text.find(wanted) != std::string::npos;
}

TEST(PlantedFaults, EveryOneIsNoticed) {
  for (const PlantedFault& fault : planted_faults())
    for (const Place place : fault.places) {
      SCOPED_TRACE(fmt::format("{}: {}, place {}", fault.stage, fault.name, static_cast<int>(place)));
      Registry stages = place == Place::host ? registry() : pretended_stages();
      faults::passes = 0;
      fault.plant(stages, place);
      const CheckResult result = check_with(stages, fault.check, place != Place::host);
      EXPECT_EQ(result.status, CheckResult::Status::failed) << result.detail;
      EXPECT_EQ(result.name, name_of(fault.check.kind));
      EXPECT_TRUE(contains_word(result.detail, fault.notices)) << result.detail;
    }
}

TEST(PlantedFaults, HonestStagesPassTheSameChecks) {
  const Registry pretended = pretended_stages();
  for (const PlantedFault& fault : planted_faults())
    for (const bool on_device : {false, true}) {
      const CheckResult result = check_with(on_device ? pretended : registry(), fault.check, on_device);
      const bool needs_device = std::find(fault.places.begin(), fault.places.end(), Place::host) == fault.places.end();
      const auto expected = needs_device && !on_device ? CheckResult::Status::skipped : CheckResult::Status::passed;
      EXPECT_EQ(result.status, expected) << name_of(fault.check.kind) << ": " << result.detail;
    }
}

/// docs/planted_faults.md is this table.
std::string table() {
  std::string text = "| fault | stage | check that notices |\n|---|---|---|\n";
  for (const PlantedFault& fault : planted_faults()) {
    std::string check(name_of(fault.check.kind));
    if (!fault.check.axes.empty()) check += " (" + fault.check.axes.front() + ")";
    text += fmt::format("| {} | {} | `{}` |\n", fault.name, fault.stage, check);
  }
  return text;
}

TEST(PlantedFaults, TheDocumentListsThem) {
  std::ifstream file(SDM_SOURCE_DIR "/docs/planted_faults.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(document.find(table()), std::string::npos) << "docs/planted_faults.md must hold this table:\n" << table();
}

}  // namespace
}  // namespace sdm::test
