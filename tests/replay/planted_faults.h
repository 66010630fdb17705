#pragma once
// Stages with one fault each. A fault wraps the stage's replay and then spoils a little of what it left.
#include <atomic>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "config/config.h"
#include "pretend_device.h"

namespace sdm::test {

/// Where a fault is run: as the host's replay, as the variant of a pretended device, or as a second variant beside the
/// honest one.
enum class Place { host, device, second_variant };

struct PlantedFault {
  std::string_view name;     ///< what is wrong
  std::string_view stage;    ///< with which stage
  CheckSpec check;           ///< what must notice
  std::string_view notices;  ///< part of the sentence that it must then say
  std::vector<Place> places;
  void (*plant)(Registry&, Place);
};

namespace faults {

template <typename Params, Stage<Params> Registry::*stage, Body<Params> body>
void plant(Registry& registry, Place place) {
  static const Variant<Params> variant = as_variant<Params, body>("faulty");
  static const Variant<Params>* const alone[] = {&variant};
  static const Variant<Params>* both[] = {nullptr, &variant};
  if (place == Place::host) (registry.*stage).replay = as_replay<Params, body>;
  if (place == Place::device) (registry.*stage).variants = alone;
  if (place == Place::second_variant) {
    both[0] = (registry.*stage).variants.front();
    (registry.*stage).variants = both;
  }
}

inline std::byte* row_of(const AnyPtr& bank, int head_dim, std::int64_t row) {
  return static_cast<std::byte*>(bank.data) + row * head_dim * static_cast<std::int64_t>(size_of(bank.dtype));
}

/// First element of what mix leaves of stream `stream`.
inline float& reading_of(const mix::Params& p, std::int64_t stream = 0) {
  return p.reading[(std::int64_t{p.step} * p.dims.streams + stream) * p.dims.chunk * p.dims.head_dim];
}

inline void flip_last_bit(float& x) { x = float_of(bits_of(x) ^ 1u); }

inline void elements_swapped(const write::Params& p, Parallel& threads, const Geometry&) {
  write::replay(p, threads);
  const auto size = size_of(p.bank.dtype);
  const Record* records = p.record + std::int64_t{p.step} * p.dims.streams * p.dims.write_positions();
  std::byte* row = row_of(p.bank, p.dims.head_dim, records[0].slot);
  std::swap_ranges(row, row + size, row + size);
}

inline void group_skipped(const write::Params& p, Parallel& threads, const Geometry&) {
  const Record* records = p.record + std::int64_t{p.step} * p.dims.streams * p.dims.write_positions();
  std::byte* row = row_of(p.bank, p.dims.head_dim, records[0].slot);
  const std::vector<std::byte> before(row, row_of(p.bank, p.dims.head_dim, records[0].slot + 1));
  write::replay(p, threads);
  std::copy(before.begin(), before.end(), row);
}

inline void entry_missed(const gather::Params& p, Parallel& threads, const Geometry&) {
  gather::replay(p, threads);
  p.retrieved[std::int64_t{p.step} * p.dims.streams * p.dims.chunk * p.dims.head_dim] *= 0.5f;
}

inline void written_past_the_end(const mix::Params& p, Parallel& threads, const Geometry&) {
  mix::replay(p, threads);
  p.delta_v[p.dims.chunks() * p.dims.chunk * p.dims.head_dim] = 0;
}

inline void element_left_stale(const mix::Params& p, Parallel& threads, const Geometry&) {
  const float before = reading_of(p);
  mix::replay(p, threads);
  reading_of(p) = before;
}

inline void element_not_a_number(const mix::Params& p, Parallel& threads, const Geometry&) {
  mix::replay(p, threads);
  reading_of(p) = std::numeric_limits<float>::quiet_NaN();
}

inline void input_overwritten(const undo::Params& p, Parallel& threads, const Geometry&) {
  undo::replay(p, threads);
  const_cast<float*>(p.beta)[0] = 0.25f;  // the planted fault itself
}

inline std::atomic<int> passes{0};  ///< forwards since the fault was planted

inline void every_second_run_differs(const mix::Params& p, Parallel& threads, const Geometry&) {
  mix::replay(p, threads);
  if (p.step == 0 && passes++ % 2) flip_last_bit(reading_of(p));
}

inline void row_not_rolled_back(const undo::Params& p, Parallel& threads, const Geometry&) {
  std::byte* row = row_of(p.bank, p.dims.head_dim, p.record[0].slot);
  const std::vector<std::byte> before(row, row_of(p.bank, p.dims.head_dim, p.record[0].slot + 1));
  undo::replay(p, threads);
  if (p.step == 0) std::copy(before.begin(), before.end(), row);
}

inline void threads_show(const mix::Params& p, Parallel& threads, const Geometry&) {
  mix::replay(p, threads);
  if (threads.threads() > 1) flip_last_bit(reading_of(p));
}

inline void streams_leak(const mix::Params& p, Parallel& threads, const Geometry&) {
  mix::replay(p, threads);
  if (p.dims.streams > 1) reading_of(p, p.dims.streams - 1) += reading_of(p, 0);
}

inline void chunk_length_shows(const mix::Params& p, Parallel& threads, const Geometry&) {
  mix::replay(p, threads);
  if (p.dims.chunk < 8) reading_of(p) += 1;
}

inline void geometry_shows(const mix::Params& p, Parallel& threads, const Geometry& geometry) {
  mix::replay(p, threads);
  if (geometry.tile == 96) flip_last_bit(reading_of(p));
}

inline void last_bit_differs(const mix::Params& p, Parallel& threads, const Geometry&) {
  mix::replay(p, threads);
  if (p.step == 1) flip_last_bit(reading_of(p));
}

}  // namespace faults

inline std::span<const PlantedFault> planted_faults() {
  using Kind = CheckSpec::Kind;
  using enum Place;
  const auto axis = [](const char* name) { return CheckSpec{.kind = Kind::invariance, .axes = {name}}; };
  static const PlantedFault all[] = {
      {"two elements of a row are swapped",
       "write",
       {.kind = Kind::oracle},
       "worst at",
       {host, device},
       faults::plant<write::Params, &Registry::write, faults::elements_swapped>},
      {"a group is skipped",
       "write",
       {.kind = Kind::oracle},
       "worst at",
       {host, device},
       faults::plant<write::Params, &Registry::write, faults::group_skipped>},
      {"half of a sum is missed",
       "gather",
       {.kind = Kind::oracle},
       "worst at",
       {host, device},
       faults::plant<gather::Params, &Registry::gather, faults::entry_missed>},
      {"an element is not a number",
       "mix",
       {.kind = Kind::oracle},
       "nan",
       {host, device},
       faults::plant<mix::Params, &Registry::mix, faults::element_not_a_number>},
      {"a float past the end of a tensor is written",
       "mix",
       {.kind = Kind::guards},
       "past the end of delta_v",
       {host, device},
       faults::plant<mix::Params, &Registry::mix, faults::written_past_the_end>},
      {"an element is never written",
       "mix",
       {.kind = Kind::guards},
       "mix/reading depends on what its memory held",
       {host, device},
       faults::plant<mix::Params, &Registry::mix, faults::element_left_stale>},
      {"an input is overwritten, always with the same value",
       "undo",
       {.kind = Kind::guards},
       "input tensor was overwritten",
       {host, device},
       faults::plant<undo::Params, &Registry::undo, faults::input_overwritten>},
      {"every second run differs in one bit",
       "mix",
       {.kind = Kind::repeat, .runs = 2},
       "mix/reading",
       {host, device},
       faults::plant<mix::Params, &Registry::mix, faults::every_second_run_differs>},
      {"a row is not rolled back",
       "undo",
       {.kind = Kind::bank_restored},
       "is not restored",
       {host, device},
       faults::plant<undo::Params, &Registry::undo, faults::row_not_rolled_back>},
      {"bits depend on the number of threads",
       "mix",
       axis("threads"),
       "host threads the bits of mix/reading change",
       {host},
       faults::plant<mix::Params, &Registry::mix, faults::threads_show>},
      {"a stream sees its neighbour",
       "mix",
       axis("batch"),
       "changes the bits of reading",
       {host, device},
       faults::plant<mix::Params, &Registry::mix, faults::streams_leak>},
      {"short chunks are computed wrongly",
       "mix",
       axis("chunk"),
       "with chunk",
       {host, device},
       faults::plant<mix::Params, &Registry::mix, faults::chunk_length_shows>},
      {"bits depend on the launch geometry",
       "mix",
       axis("geometry"),
       "with tile 96",
       {device},
       faults::plant<mix::Params, &Registry::mix, faults::geometry_shows>},
      {"a second exact variant differs in one bit",
       "mix",
       {.kind = Kind::agree},
       "with mix/faulty the bits of mix/reading change",
       {second_variant},
       faults::plant<mix::Params, &Registry::mix, faults::last_bit_differs>},
      {"one bit differs from the replay",
       "mix",
       {.kind = Kind::replay},
       "mix/reading",
       {device},
       faults::plant<mix::Params, &Registry::mix, faults::last_bit_differs>},
      {"one bit differs from the replay (lockstep)",
       "mix",
       {.kind = Kind::replay, .lockstep = true},
       "first difference after mix of step 1 in reading",
       {device},
       faults::plant<mix::Params, &Registry::mix, faults::last_bit_differs>},
  };
  return all;
}

}  // namespace sdm::test
