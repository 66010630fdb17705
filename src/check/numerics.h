#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "base/parallel.h"
#include "kernels/numeric_sweep/numeric_sweep.h"

namespace sdm {

/// Whoever computes the functions of numerics/sweep.h beside the host.
class SweepSide {
 public:
  virtual ~SweepSide() = default;
  /// One sum a block, blocks 0 .. blocks-1.
  virtual std::vector<std::uint64_t> sums(sweep::Function f, std::uint32_t blocks) = 0;
  /// The outputs of one block.
  virtual std::vector<std::uint32_t> outputs(sweep::Function f, std::uint32_t block) = 0;
};

/// A GPU; `fault` is an input whose result is spoiled there, sweep::kNoFault for none.
std::unique_ptr<SweepSide> device_side(Backend& backend, std::uint64_t fault);

struct SweepVerdict {
  sweep::Function function;
  std::uint64_t inputs = 0;
  std::string difference;  ///< the first input whose outputs differ, in words; empty: all are equal
};

/// Tries inputs 0 .. blocks*2^20 - 1 of a function on the host and on the other side; 4096 blocks are all inputs.
SweepVerdict sweep_function(sweep::Function f, std::uint32_t blocks, SweepSide& other, Parallel& threads);

}  // namespace sdm
