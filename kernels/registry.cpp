#include "kernels/registry.h"

#include "kernels/variants.h"

namespace sdm {
namespace {

Registry make_registry() {
  const Variants v = variants();
  return {
      .group_entries = {"group_entries", "slot sort, payload (kpay/qpay)", group_entries::replay, v.group_entries},
      .decay_sums = {"decay_sums", "records (krec/qrec/PA record)", decay_sums::replay, v.decay_sums},
      .interactions = {"interactions", "A and QK", interactions::replay, v.interactions},
      .solve = {"solve", "UT transform", solve::replay, v.solve},
      .combine = {"combine", "", combine::replay, v.combine},
      .gather = {"gather", "token gather", gather::replay, v.gather},
      .mix = {"mix", "dual matmul", mix::replay, v.mix},
      .write = {"write", "DW (decay and write); dense snapshot = compact snapshot (snapc)", write::replay, v.write},
      .combine_grad = {"combine_grad", "", combine_grad::replay, v.combine_grad},
      .gather_grad = {"gather_grad", "GWR", gather_grad::replay, v.gather_grad},
      .mix_grad = {"mix_grad", "", mix_grad::replay, v.mix_grad},
      .undo = {"undo", "Phase A / PA (backward of DW)", undo::replay, v.undo},
      .read_grad = {"read_grad", "GDS (dots and scatter)", read_grad::replay, v.read_grad},
      .reduce = {"reduce", "", reduce::replay, v.reduce},
      .parameter_gradients = {"parameter_gradients", "", parameter_gradients::replay, v.parameter_gradients},
      .dense_rescan = {"dense_rescan", "chunked gated delta rule, backward re-scan of the states", dense_rescan::replay,
                       v.dense_rescan},
  };
}

}  // namespace

const Registry& registry() {
  static const Registry instance = make_registry();
  return instance;
}

}  // namespace sdm
