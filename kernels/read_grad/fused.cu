// read_grad, variant `fused`: one walk over the sorted reads makes scatter and dots. A group's gradient and bank rows
// are read once each, whatever its length, and both uses share the token row: less traffic than scatter and dot blocks
// side by side, which read a bank row once per entry (`split` has the dots in token order).
#include "kernels/read_grad/pairs.cuh"

namespace sdm::read_grad {
namespace {

// --- launchers -------------------------------------------------------------------------------------------------------

template <typename G, typename B>
inline constexpr bool kBf16Pair = sizeof(G) == 2 && sizeof(B) == 2;

template <typename G, typename B>
WalkShape shape_of(const Params& p, const LaunchContext& context) {
  const int group = walk_group(row_slice_width(p.dims.head_dim) * static_cast<int>(sizeof(G)), 2);
  return walk_shape(p, kReadSlotBytes<G, B, true>, group, kBf16Pair<G, B>, context);
}

void launch_fused(const Params& p, const LaunchContext& context) {
  dispatch_rows(p, [&]<typename G, typename B, bool kVector>() {
    const WalkShape shape = shape_of<G, B>(p, context);
    const auto walk_by = [&]<typename Lanes, bool kGrouped>() {
      device::launch(walk_kernel<Lanes, kVector, true, kGrouped>, launch_shape(p, shape), context, p, shape);
    };
    if constexpr (kVector && kBf16Pair<G, B>) {
      if (shape.pairs) return walk_by.template operator()<ReadPairs, false>();
      if (shape.pieces) return walk_by.template operator()<ReadLanes<G, B, true, true, true>, false>();
    }
    dispatch_value<false, true>(shape.group > 1, [&]<bool kGrouped>() {
      walk_by.template operator()<ReadLanes<G, B, kVector, true>, kGrouped>();
    });
  });
}

std::string describe_fused(const Params& p, const LaunchContext& context) {
  std::string text;
  dispatch_rows(p, [&]<typename G, typename B, bool kVector>() {
    const WalkShape shape = shape_of<G, B>(p, context);
    text = device::describe(launch_shape(p, shape)) + "; " + sdm::describe(shape);
  });
  return text;
}

}  // namespace

const Variant<Params> fused{.name = "fused",
                            .why = "scatter and dots in one walk over the groups: each unique row once",
                            .refuse = refuse_types,
                            .launch = launch_fused,
                            .describe = describe_fused};

}  // namespace sdm::read_grad
