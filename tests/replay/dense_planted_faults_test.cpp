// The checks of a dense case prove themselves: each passes on the honest re-scan and fails, with the right sentence, on
// a planted fault. A fault wraps the replay and then spoils a little of what it left.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "pretend_device.h"
#include "run/dense_checks.h"

namespace sdm::test {
namespace {

using dense_rescan::Params;
using Kind = CheckSpec::Kind;

enum class Place { host, device, second_variant };

struct Fault {
  std::string_view name;
  CheckSpec check;           ///< what must notice
  std::string_view notices;  ///< part of the sentence that it must then say
  std::vector<Place> places;
  void (*plant)(Stage<Params>&, Place);
};

template <Body<Params> body>
void plant(Stage<Params>& stage, Place place) {
  static const Variant<Params> variant = as_variant<Params, body>("faulty");
  static const Variant<Params>* const alone[] = {&variant};
  static const Variant<Params>* both[] = {nullptr, &variant};
  if (place == Place::host) stage.replay = as_replay<Params, body>;
  if (place == Place::device) stage.variants = alone;
  if (place == Place::second_variant) both[0] = stage.variants.front(), stage.variants = both;
}

void flip_last_bit(float& x) { x = float_of(bits_of(x) ^ 1u); }
std::uint16_t& bits16(void* array, std::int64_t i) { return static_cast<std::uint16_t*>(array)[i]; }

void token_swapped(const Params& p, Parallel& threads, const Geometry&) {
  dense_rescan::replay(p, threads);
  for (int v = 0; v < p.value_dim; ++v)
    std::swap(bits16(p.v_new, v), bits16(p.v_new, std::int64_t{p.heads} * p.value_dim + v));
}
void checkpoint_off(const Params& p, Parallel& threads, const Geometry&) {
  dense_rescan::replay(p, threads);
  bits16(p.checkpoints, p.streams() * p.chunks * p.key_dim * p.value_dim - 2) ^= 4;
}
void first_checkpoint_off(const Params& p, Parallel& threads, const Geometry&) {
  dense_rescan::replay(p, threads);
  bits16(p.checkpoints, 7) ^= 1;
}
void tile_missed(const Params& p, Parallel& threads, const Geometry&) {
  dense_rescan::replay(p, threads);
  Params narrow = p;  // dq of a run that knows half of the values only
  std::vector<std::uint16_t> d_out(static_cast<std::size_t>(p.rows() * p.value_dim));
  for (std::size_t i = 0; i < d_out.size(); ++i)
    d_out[i] = static_cast<int>(i) % p.value_dim < dense_rescan::kTile ? static_cast<const std::uint16_t*>(p.d_out)[i]
                                                                       : std::uint16_t{0};
  narrow.d_out = d_out.data();
  dense_rescan::replay(narrow, threads);
}
void not_a_number(const Params& p, Parallel& threads, const Geometry&) {
  dense_rescan::replay(p, threads);
  bits16(p.v_new, 9) = 0x7fff;
}
void written_past_the_end(const Params& p, Parallel& threads, const Geometry&) {
  dense_rescan::replay(p, threads);
  p.final_state[p.streams() * p.key_dim * p.value_dim] = 0;
}
void element_left_stale(const Params& p, Parallel& threads, const Geometry&) {
  const float before = p.final_state[3];
  dense_rescan::replay(p, threads);
  p.final_state[3] = before;
}
void input_overwritten(const Params& p, Parallel& threads, const Geometry&) {
  dense_rescan::replay(p, threads);
  // The fault itself: a row of g2 that no one reads, so that outputs stay right.
  const_cast<float*>(p.g2)[0] = std::min(p.g2[0] * 0.5f, -1e-3f);
}
int runs = 0;  // since the fault was planted
void every_second_run_differs(const Params& p, Parallel& threads, const Geometry&) {
  dense_rescan::replay(p, threads);
  if (runs++ % 2) flip_last_bit(p.final_state[0]);
}
void dq_varies(const Params& p, Parallel& threads, const Geometry&) {
  dense_rescan::replay(p, threads);
  if (runs++ % 2) flip_last_bit(p.dq[5]);
}
void neighbours_show(const Params& p, Parallel& threads, const Geometry&) {
  dense_rescan::replay(p, threads);
  if (p.batch > 1) flip_last_bit(p.final_state[1]);
}
void geometry_shows(const Params& p, Parallel& threads, const Geometry& geometry) {
  dense_rescan::replay(p, threads);
  if (geometry.tile == 32) flip_last_bit(p.final_state[1]);
}
void last_bit_differs(const Params& p, Parallel& threads, const Geometry&) {
  dense_rescan::replay(p, threads);
  flip_last_bit(p.dq[p.rows() * p.key_dim - 1]);
}

std::span<const Fault> all_faults() {
  using enum Place;
  static const Fault all[] = {
      {"two tokens of v_new are swapped", {.kind = Kind::oracle}, "steps: v_new", {host, device}, plant<token_swapped>},
      {"a checkpoint is four spacings off",
       {.kind = Kind::oracle},
       "steps: checkpoints",
       {host, device},
       plant<checkpoint_off>},
      {"the first checkpoint is not io(h0), by one bit",
       {.kind = Kind::oracle},
       "checkpoint 0",
       {host, device},
       plant<first_checkpoint_off>},
      {"dq misses a tile of V", {.kind = Kind::oracle}, "steps: dq", {host, device}, plant<tile_missed>},
      {"an element is not a number", {.kind = Kind::oracle}, "nan", {host, device}, plant<not_a_number>},
      {"a float past the end of a tensor is written",
       {.kind = Kind::guards},
       "past the end of final_state",
       {host, device},
       plant<written_past_the_end>},
      {"an element is never written",
       {.kind = Kind::guards},
       "final_state depends on what its memory held",
       {host, device},
       plant<element_left_stale>},
      {"an input is overwritten", {.kind = Kind::guards}, "input tensor was", {host, device}, plant<input_overwritten>},
      {"every second run differs in one bit",
       {.kind = Kind::repeat, .runs = 2},
       "final_state",
       {host, device},
       plant<every_second_run_differs>},
      {"an ordered dq varies like an atomic one",
       {.kind = Kind::repeat, .runs = 2},
       "differs from the first in dq",
       {host, device},
       plant<dq_varies>},
      {"a sequence sees its neighbour",
       {.kind = Kind::invariance},
       "within the batch: final_state",
       {host, device},
       plant<neighbours_show>},
      {"bits depend on the launch geometry",
       {.kind = Kind::invariance},
       "with tile 32",
       {device},
       plant<geometry_shows>},
      {"a second exact variant differs in one bit",
       {.kind = Kind::agree},
       "faulty: dq",
       {second_variant},
       plant<last_bit_differs>},
      {"one bit differs from the replay", {.kind = Kind::replay}, "dq:", {device}, plant<last_bit_differs>},
  };
  return all;
}

Stage<Params> pretended() {
  Stage<Params> stage = registry().dense_rescan;
  stage.variants = honest_list<Params, dense_rescan::replay>();
  return stage;
}

/// Runs one check of a small case with this stage, as `run` would.
CheckResult check_with(const Stage<Params>& stage, const CheckSpec& spec, bool on_device, DqMode dq = DqMode::ordered) {
  const std::unique_ptr<Backend> host = make_host_backend();
  PretendDevice device;
  Backend& backend = on_device ? static_cast<Backend&>(device) : *host;
  Parallel threads(2);
  Registry stages = registry();
  stages.dense_rescan = stage;
  const DenseWorkload workload{.batch = 2, .tokens = 128, .heads = 1, .value_dim = 128, .dq = dq, .seed = 5};
  const DenseInputs inputs = generate_dense_inputs(workload, threads);
  DenseSession session(workload, inputs, backend, threads, {}, stages);
  session.restore();
  session.run();
  DenseCheckContext context{workload, inputs, session, *host, threads, session.digests(), stages};
  return run_dense_check(spec, context);
}

TEST(DensePlantedFaults, EveryOneIsNoticed) {
  for (const Fault& fault : all_faults())
    for (const Place place : fault.places) {
      SCOPED_TRACE(fmt::format("{}, place {}", fault.name, static_cast<int>(place)));
      Stage<Params> stage = place == Place::host ? registry().dense_rescan : pretended();
      runs = 0;
      fault.plant(stage, place);
      const CheckResult result = check_with(stage, fault.check, place != Place::host);
      EXPECT_EQ(result.status, CheckResult::Status::failed) << result.detail;
      EXPECT_NE(result.detail.find(fault.notices), std::string::npos) << result.detail;
    }
}

TEST(DensePlantedFaults, HonestStagesPassTheSameChecks) {
  for (const Kind kind : {Kind::oracle, Kind::guards, Kind::repeat, Kind::invariance, Kind::agree, Kind::replay})
    for (const bool on_device : {false, true}) {
      const CheckResult result =
          check_with(on_device ? pretended() : registry().dense_rescan, {.kind = kind, .runs = 2}, on_device);
      const bool needs_device = kind == Kind::agree || kind == Kind::replay;
      EXPECT_EQ(result.status, needs_device && !on_device ? CheckResult::Status::skipped : CheckResult::Status::passed)
          << result.name << ": " << result.detail;
    }
}

/// Atomic sums of a GPU may vary: that is said, and no failure; all else must still repeat.
TEST(DensePlantedFaults, AnAtomicDqMayVaryAndIsSaidTo) {
  Stage<Params> stage = pretended();
  runs = 0;
  plant<dq_varies>(stage, Place::device);
  const CheckResult result = check_with(stage, {.kind = Kind::repeat, .runs = 3}, true, DqMode::atomic);
  EXPECT_EQ(result.status, CheckResult::Status::passed) << result.detail;
  EXPECT_NE(result.detail.find("varied in 2 of them"), std::string::npos) << result.detail;
  runs = 0;
  plant<every_second_run_differs>(stage, Place::device);
  EXPECT_EQ(check_with(stage, {.kind = Kind::repeat, .runs = 3}, true, DqMode::atomic).status,
            CheckResult::Status::failed);
}

/// docs/dense.md holds this table.
TEST(DensePlantedFaults, TheDocumentListsThem) {
  std::string table = "| fault | check that notices |\n|---|---|\n";
  for (const Fault& fault : all_faults())
    table += fmt::format("| {} | `{}` |\n", fault.name, name_of(fault.check.kind));
  std::ifstream file(SDM_SOURCE_DIR "/docs/dense.md");
  const std::string document{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(document.find(table), std::string::npos) << "docs/dense.md must hold this table:\n" << table;
}

}  // namespace
}  // namespace sdm::test
