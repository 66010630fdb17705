#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::write {

/// Per group of one step: M[s] = M[s]*cpe + sum_i write_weight_i * delta_v[token_i], and, when asked, the pre-write row
/// into the dense snapshot.
struct Params {
  Dims dims;
  std::int32_t step = 0;
  AnyPtr bank;                             ///< [P*slots, D] in and out
  const float* delta_v = nullptr;          ///< [N, C, D]
  const Record* record = nullptr;          ///< [N, C*W]
  const Window* window = nullptr;          ///< [N, window_count(C*W)]
  const std::int32_t* position = nullptr;  ///< [N, C*W] entry (token*W + entry) -> sorted position
  const std::uint32_t* payload = nullptr;  ///< [N, C*W] those of the records
  Snapshot snapshot;                       ///< out; rows null: none. Dense formats only
};

void replay(const Params& params, Parallel& threads);

// GPU variants; the replay's bits unless they say otherwise. The bank, records and windows must have been written at
// least two launches before: with dependent launch they are read before the wait for the previous grid, which makes
// delta_v.
extern const Variant<Params> direct;      ///< one column slice a lane group
extern const Variant<Params> direct2;     ///< two slices a warp, bf16
extern const Variant<Params> cluster;     ///< quantized wide rows: row maxima exchanged within a cluster (sm_90)
extern const Variant<Params> by_token;    ///< quantized rows of up to 2 KiB: a CTA owns tokens, a warp walks whole rows
extern const Variant<Params> all_slices;  ///< quantized rows of any width on any GPU: a warp walks whole rows
extern const Variant<Params> ring;        ///< base rows through a shared-memory ring; quantizes rows of one block
extern const Variant<Params> stream;      ///< raw snapshot rows by bulk stores (sm_90)
extern const Variant<Params> atomic;      ///< baseline with float atomics: approximate, only by name

}  // namespace sdm::write
