#pragma once
// The device's side of the numerics sweep: the same functions as numerics/sweep.h, on every input.
#include <cstdint>

#include "kernels/stage.h"
#include "numerics/sweep.h"

namespace sdm::sweep {

/// An input whose result is spoiled by one bit, to prove that the comparison notices; kNoFault: none.
inline constexpr std::uint64_t kNoFault = ~std::uint64_t{0};

/// sums[b] = sum of term(input, output) over inputs b*kBlock .. (b+1)*kBlock - 1, for b below `blocks`. Inputs of a dot
/// are numbered by 32s.
void launch_sums(Function f, std::uint64_t* sums, std::uint32_t blocks, std::uint64_t fault,
                 const LaunchContext& context);
/// The outputs of one block: kBlock words, kBlock/32 for a dot.
void launch_outputs(Function f, std::uint32_t* outputs, std::uint32_t block, std::uint64_t fault,
                    const LaunchContext& context);

}  // namespace sdm::sweep
