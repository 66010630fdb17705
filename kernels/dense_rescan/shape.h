#pragma once
// How the wgmma and the tcgen05 variant divide the work, and their launchers. Host code but for Shape.
#include "kernels/dense_rescan/launch.h"
#include "kernels/dense_rescan/layout.h"
#include "kernels/dense_rescan/tensor_maps.h"

namespace sdm::dense_rescan {

/// A kernel's form: a CTA owns kColumns columns of V of one stream. kDq: it makes dq as well.
template <typename T_, int kK_, int kColumns_, bool kDq_>
struct Shape {
  using T = T_;
  static constexpr int kK = kK_, kColumns = kColumns_;
  static constexpr bool kDq = kDq_;
  using Memory = Layout<kK, kColumns, kDq>;
  static constexpr int kGroups = kColumns >= 128 ? 2 : 1;  ///< warpgroups that compute; one more feeds them
  static constexpr int kThreads = 128 * (kGroups + 1);
  static constexpr int kWidth = kColumns / kGroups;  ///< columns of a warpgroup
};

/// The more columns a CTA owns, the less often w and kg are read. A box of the copy engine holds 64.
inline int ring_columns(const Params& p, const LaunchContext& context) { return columns_of(p, context, 256, 64); }

/// dq within the re-scan: always by atomics, ordered where a CTA owns all of V. Else it follows from the checkpoints.
inline bool dq_inside(const Params& p, int columns) {
  return p.dq_mode == DqMode::atomic || (p.dq_mode == DqMode::ordered && columns == p.value_dim);
}

template <typename Body>
void dispatch_shape(const Params& p, int columns, Body&& body) {
  dispatch_half(p.io, [&]<typename T>() {
    dispatch_value<64, 128>(
        p.key_dim, [&]<auto kK>() {
          dispatch_value<64, 128, 256>(
              columns, [&]<auto kColumns>() {
                if (dq_inside(p, columns))
                  body.template operator()<Shape<T, kK, kColumns, true>>();
                else
                  body.template operator()<Shape<T, kK, kColumns, false>>();
              });
        });
  });
}

template <typename S>
device::LaunchShape ring_shape(const Params& p) {
  const std::int64_t ctas = p.streams() * (p.value_dim / S::kColumns);
  return {.grid = dim3(static_cast<unsigned>(ctas)),
          .threads = S::kThreads,
          .shared_bytes = static_cast<std::size_t>(S::Memory::kBytes) + 1024};
}

/// Sizes and devices that neither variant takes; empty: fine.
inline std::string refuse_ring(const Params& p, const Device& device) {
  if (device.shared_memory_per_block < 232448)
    return std::string("a block needs 232448 bytes of shared memory; this device gives ")
        .append(std::to_string(device.shared_memory_per_block));
  const std::int64_t widest = std::int64_t{p.heads} * (p.key_dim > p.value_dim ? p.key_dim : p.value_dim);
  if (widest >= std::int64_t{1} << 31 || p.streams() * (p.value_dim / kTile) >= std::int64_t{1} << 31)
    return "heads times columns and the grid must stay below 2^31";
  return refuse_sizes(p);
}

/// Kernel::of<Shape>() is the kernel (Params, Maps) of a shape.
template <typename Kernel>
void launch_ring(const Params& p, const LaunchContext& context) {
  const int columns = ring_columns(p, context);
  const bool inside = dq_inside(p, columns);
  if (inside && p.dq_mode == DqMode::atomic) clear_dq(p, context);
  const Maps maps = make_maps(p);
  dispatch_shape(p, columns,
                 [&]<typename S>() { device::launch(Kernel::template of<S>(), ring_shape<S>(p), context, p, maps); });
  if (p.dq_mode != DqMode::off && !inside) launch_query(p, context);
}

inline std::string describe_ring(const Params& p, const LaunchContext& context) {
  const int columns = ring_columns(p, context);
  std::string text;
  dispatch_shape(p, columns, [&]<typename S>() {
    text.append(device::describe(ring_shape<S>(p))).append(", depth ").append(std::to_string(S::Memory::kStages));
  });
  text.append(", ").append(std::to_string(columns)).append(" columns a block");
  if (p.dq_mode != DqMode::off && !dq_inside(p, columns)) text.append("; ").append(describe_query(p, context));
  return text;
}

}  // namespace sdm::dense_rescan
