#pragma once
#include <string_view>

#include "pipeline/sparse_buffers.h"

namespace sdm {

/// What a stage must move and compute in one pass, all steps together. Every unique row, record and array element is
/// counted once per step in which it is needed, as if caches were perfect within a step and empty between steps.
struct StageCost {
  double bytes = 0, flops = 0;
};

/// How a stage touches memory: which measured roof its bandwidth is held against.
enum class Access : std::uint8_t { stream, row_read, row_read_write };

StageCost stage_cost(std::string_view stage, const SparseBuffers& buffers, const WorkloadFacts& facts);
Access stage_access(std::string_view stage);

}  // namespace sdm
