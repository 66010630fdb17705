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

/// Columns of V a CTA: `most` (a power of two), halved until it divides V and while the grid would leave half of the
/// multiprocessors idle, but not under `least`. Columns of the state do not depend on each other: bits never depend on
/// this. The geometry's tile overrides it.
inline int columns_of(const Params& p, const LaunchContext& context, int most, int least) {
  for (int asked = least; asked <= most; asked *= 2)
    if (context.geometry.tile == asked && p.value_dim % asked == 0) return asked;
  int columns = most;
  while (p.value_dim % columns != 0) columns /= 2;
  while (columns > least && 2 * p.streams() * (p.value_dim / columns) <= context.device.multiprocessors) columns /= 2;
  return columns;
}

/// State rows a CTA of the kernels that make dq from checkpoints: all K, halved on the same grounds down to 32. A CTA
/// sums over V whole, so bits do not depend on it.
inline int query_rows(const Params& p, const LaunchContext& context) {
  const std::int64_t ctas = p.streams() * p.chunks * (p.dq_mode == DqMode::atomic ? p.value_dim / kTile : 1);
  int rows = p.key_dim;
  while (rows > 32 && 2 * ctas * (p.key_dim / rows) <= context.device.multiprocessors) rows /= 2;
  return rows;
}
/// Their grid: chunks of all streams, tiles of V with atomics, parts of K.
inline dim3 query_grid(const Params& p, const LaunchContext& context) {
  const auto tiles = static_cast<unsigned>(p.dq_mode == DqMode::atomic ? p.value_dim / kTile : 1);
  return dim3(static_cast<unsigned>(p.streams() * p.chunks), tiles,
              static_cast<unsigned>(p.key_dim / query_rows(p, context)));
}

/// Zeros for the atomic mode to add to.
inline void clear_dq(const Params& p, const LaunchContext& context) {
  const std::size_t bytes = sizeof(float) * static_cast<std::size_t>(p.rows()) * static_cast<std::size_t>(p.key_dim);
  cudaMemsetAsync(p.dq, 0, bytes, device::stream_of(context));
}

/// dq by mma.sync from the checkpoints that the stream's previous kernel wrote (mma.cu); ordered or atomic.
void launch_query(const Params& p, const LaunchContext& context);
std::string describe_query(const Params& p, const LaunchContext& context);
/// In words, from the shape of such a kernel.
inline std::string describe_query(const Params& p, const LaunchContext& context, const device::LaunchShape& shape) {
  std::string text = "dq from checkpoints: ";
  text.append(device::describe(shape)).append(", ").append(std::to_string(query_rows(p, context)));
  return text.append(" of K a block");
}

}  // namespace sdm::dense_rescan
