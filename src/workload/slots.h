#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.h"
#include "workload/sparse.h"
#include "workload/stamped_map.h"
#include "workload/zipf.h"

namespace sdm {

/// Working memory of one thread for SlotLaw::draw.
struct SlotScratch {
  StampedMap map{2 * 256};
  std::vector<std::int32_t> rows, columns;
  std::vector<std::uint64_t> row_penalty, column_penalty, heap;
};

/// Where a workload's slots come from (docs/workloads.md describes each law). Immutable, shared by threads.
class SlotLaw {
 public:
  /// A validated workload of any distribution but replay.
  explicit SlotLaw(const SparseWorkload& workload);

  /// Fills `out` with distinct slots in [0, slots), the same for the same (seed, purpose, stream, token, out.size()).
  /// `purpose` is write_slots or read_slots; out.size() is in [1, min(256, slots)].
  void draw(Purpose purpose, std::uint32_t stream, std::uint32_t token, std::span<std::int32_t> out,
            SlotScratch& scratch) const;

 private:
  void draw_zipf(RandomSequence& random, std::uint32_t stream, std::span<std::int32_t> out, StampedMap& used) const;
  void draw_product_key(RandomSequence& random, std::span<std::int32_t> out, SlotScratch& scratch) const;

  Distribution::Kind kind_;
  std::uint64_t seed_;
  std::uint32_t slots_;
  std::uint32_t hot_slots_;
  std::optional<ZipfTable> zipf_;
  std::uint32_t scatter_ = 1;             ///< zipf: rank -> slot is an affine map modulo slots with this factor
  std::uint32_t rows_ = 1, columns_ = 1;  ///< product_key: slot = row*columns + column
};

}  // namespace sdm
