// write, variant `direct2`: as direct, with two 128-column slices a warp: 32 lanes of 16 bytes hold 256 bf16 columns,
// one position at a time, so that memory sees 512 adjacent bytes of a row.
#include "kernels/write/groups.cuh"
#include "numerics/order.h"

namespace sdm::write {
namespace {

// --- launchers (the kernel is groups.cuh's)
// ----------------------------------------------------------------------------

constexpr int kDepth = 8;
constexpr int kColumns = 256;
using Shape = RowShape<bf16_t, 32, true>;
static_assert(Shape::kColumns == kColumns);

std::string refuse(const Params& p, const Device& device) {
  if (std::string reason = refuse_common(p); !reason.empty()) return reason;
  if (p.bank.dtype != DType::bf16) return "direct2 takes bf16 banks, not " + std::string(name_of(p.bank.dtype));
  if (slice_count(p.dims.head_dim) % 2 != 0 || !rows_aligned(p))
    return "direct2 takes an even number of 128-column slices and rows of a multiple of 16 bytes; a head dim of " +
           std::to_string(p.dims.head_dim) + " is not";
  if (!tokens_fit(p, kColumns, device))
    return "direct2 keeps 256 columns of a chunk's token rows in shared memory (" +
           std::to_string(token_bytes(p, kColumns)) + " bytes); this GPU offers " +
           std::to_string(device.shared_memory_per_block);
  if (quantizes(p) && p.dims.head_dim > kColumns)
    return "direct2 quantizes rows of at most 256 columns, not " + std::to_string(p.dims.head_dim) +
           ": a row's scale needs its largest magnitude; use cluster or all_slices";
  return {};
}

void launch(const Params& p, const LaunchContext& context) {
  const WalkShape shape = walk_shape(p, context, Shape::kColumns, Shape::kLanes, kDepth);
  dispatch_value<Save::none, Save::raw, Save::bf16, Save::fp8, Save::int4>(save_of(p.snapshot), [&]<Save kSave>() {
    device::launch(groups_kernel<Shape, kSave, kDepth>, shape.launch, context, p, shape.cut);
  });
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  return describe(walk_shape(p, context, Shape::kColumns, Shape::kLanes, kDepth), Shape::kColumns, Shape::kLanes,
                  kDepth);
}

}  // namespace

const Variant<Params> direct2{
    .name = "direct2",
    .why = "two column slices a warp: wide bf16 rows whose token rows still fit shared memory",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::write
