#include "kernels/combine_grad/combine_grad.h"
#include "kernels/common/triangular_grid.cuh"

namespace sdm::combine_grad {
namespace {

// --- launchers (the kernel is device::product_kernel)
// -------------------------------------------------------------------

std::string refuse(const Params& p, const Device&) {
  return device::refuse_tiles(p.dims.chunks(), 1, p.dims.chunk, p.dims.head_dim);
}

void launch(const Params& p, const LaunchContext& context) {
  device::ProductArgs args{p.dims.chunks(), p.dims.chunk, p.dims.head_dim, p.qk, p.d_reading, nullptr, p.u};
  device::launch_product<device::Triangle::transposed, false>(args, context);
  args.factor = p.s, args.rows = p.u, args.out = p.base_dva;
  device::launch_product<device::Triangle::transposed, false>(args, context);
}

std::string describe_launch(const Params& p, const LaunchContext& context) {
  const int c = p.dims.chunk, d = p.dims.head_dim;
  const device::TileKind kind = device::tile_kind(p.dims.chunks(), c, d, device::vectors_fit(c, d), context);
  return "2 launches, " + device::describe(device::tile_shape(kind, p.dims.chunks(), 1, c, d)) + ", " +
         device::name_of(kind);
}

}  // namespace

const Variant<Params> simt = {
    .name = "simt",
    .why = "fp32 multiply-adds, the replay's bits",
    .refuse = refuse,
    .launch = launch,
    .describe = describe_launch,
};

}  // namespace sdm::combine_grad
