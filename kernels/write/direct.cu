// write, variant `direct`: base rows are read from the bank itself, at most 128 columns of a row a lane group (the last
// block of a row may be short; per-column results do not depend on the cut). Half a warp holds 128 bf16 columns, so a
// warp works on two positions at once and every access is 16 bytes a lane.
#include "kernels/write/groups.cuh"

namespace sdm::write {
namespace {

constexpr int kDepth = 8;         // 8 x 16 bytes a lane and 16 warps: 64 KiB of rows in flight an SM
constexpr int kElementDepth = 2;  // element accesses need many more registers a row

// --- launchers -------------------------------------------------------------------------------------------------------

/// 128 columns; 64 where rows are no wider, where 128 columns of a chunk's token rows exceed shared memory, and for
/// element accesses.
int columns_of(const Params& p, const Device& device) {
  return !rows_aligned(p) || p.dims.head_dim <= 64 || !tokens_fit(p, 128, device) ? 64 : 128;
}
int lanes_of(const Params& p, int columns) { return columns * static_cast<int>(size_of(p.bank.dtype)) / 16; }

int part_of(const Params& p) { return rows_aligned(p) ? kDepth : kElementDepth; }

std::string refuse(const Params& p, const Device& device) {
  if (std::string reason = refuse_common(p); !reason.empty()) return reason;
  const int columns = columns_of(p, device);
  if (!tokens_fit(p, columns, device))
    return "direct keeps 64 columns of a chunk's token rows in shared memory (" +
           std::to_string(token_bytes(p, columns)) + " bytes); this GPU offers " +
           std::to_string(device.shared_memory_per_block);
  if (quantizes(p) && p.dims.head_dim > columns)
    return "direct quantizes rows of at most " + std::to_string(columns) + " columns, not " +
           std::to_string(p.dims.head_dim) + ": a row's scale needs its largest magnitude; use cluster or all_slices";
  return {};
}

template <typename S>
void launch_shape(const Params& p, const LaunchContext& context) {
  const WalkShape shape = walk_shape(p, context, S::kColumns, S::kLanes, S::kAligned ? kDepth : kElementDepth);
  dispatch_value<Save::none, Save::raw, Save::bf16, Save::fp8, Save::int4>(save_of(p.snapshot), [&]<Save kSave>() {
    device::launch(groups_kernel < S, kSave, S::kAligned ? kDepth : kElementDepth >, shape.launch, context, p,
                   shape.cut);
  });
}

void launch(const Params& p, const LaunchContext& context) {
  const int columns = columns_of(p, context.device);
  dispatch_real(p.bank.dtype, [&]<typename T>() {
    constexpr int kHalf = 64 / device::kVec<T>;
    if (!rows_aligned(p)) return launch_shape<RowShape<T, kHalf, false>>(p, context);
    if (columns == 64) return launch_shape<RowShape<T, kHalf, true>>(p, context);
    launch_shape<RowShape<T, 2 * kHalf, true>>(p, context);
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const int columns = columns_of(p, context.device), lanes = lanes_of(p, columns);
  return describe(walk_shape(p, context, columns, lanes, part_of(p)), columns, lanes, part_of(p));
}

}  // namespace

const Variant<Params> direct{
    .name = "direct",
    .why =
        "one column slice a lane group, base rows from the bank itself; any width and format but wide quantized rows",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::write
