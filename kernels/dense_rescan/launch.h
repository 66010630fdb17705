#pragma once
// What the launchers of all variants share.
#include "kernels/common/launch.h"
#include "kernels/dense_rescan/dense_rescan.h"

namespace sdm::dense_rescan {

/// Sizes that no variant takes; empty: fine.
inline std::string refuse_sizes(const Params& p) {
  if (p.key_dim != 64 && p.key_dim != 128)
    return std::string("K is ") + std::to_string(p.key_dim) + "; 64 and 128 are built";
  if (p.value_dim % kTile != 0)
    return std::string("V is ") + std::to_string(p.value_dim) + "; a multiple of 64 is needed";
  if (p.value_dim / kTile > 65535)
    return std::string("V is ") + std::to_string(p.value_dim) + "; at most 64 * 65535 fit a grid";
  if (p.streams() * p.chunks * p.key_dim >= (std::int64_t{1} << 31))
    return std::string("B*NT*HV*K is ") + std::to_string(p.streams() * p.chunks * p.key_dim) +
           "; less than 2^31 is needed";
  return "";
}

/// Zeros for the atomic mode to add to.
inline void clear_dq(const Params& p, const LaunchContext& context) {
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(p.rows()) * static_cast<std::size_t>(p.key_dim);
  cudaMemsetAsync(p.dq, 0, bytes, device::stream_of(context));
}

/// dq by mma.sync from the checkpoints that the stream's previous kernel wrote (mma.cu); ordered or atomic.
void launch_query(const Params& p, const LaunchContext& context);
std::string describe_query(const Params& p);

}  // namespace sdm::dense_rescan
