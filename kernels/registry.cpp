#include "kernels/registry.h"

namespace sdm {
namespace {

#if SDM_WITH_CUDA
constexpr const Variant<undo::Params>* kUndoVariants[] = {&undo::walk};
constexpr const Variant<read_grad::Params>* kReadGradVariants[] = {&read_grad::fused, &read_grad::split,
                                                                   &read_grad::atomic};
#else
constexpr std::span<const Variant<undo::Params>* const> kUndoVariants;
constexpr std::span<const Variant<read_grad::Params>* const> kReadGradVariants;
#endif

constexpr Registry kRegistry{
    .group_entries = {"group_entries", "slot sort, payload (kpay/qpay)", group_entries::replay, {}},
    .decay_sums = {"decay_sums", "records (krec/qrec/PA record)", decay_sums::replay, {}},
    .interactions = {"interactions", "A and QK", interactions::replay, {}},
    .solve = {"solve", "UT transform", solve::replay, {}},
    .combine = {"combine", "", combine::replay, {}},
    .gather = {"gather", "token gather", gather::replay, {}},
    .mix = {"mix", "dual matmul", mix::replay, {}},
    .write = {"write", "DW (decay and write)", write::replay, {}},
    .combine_grad = {"combine_grad", "", combine_grad::replay, {}},
    .gather_grad = {"gather_grad", "GWR", gather_grad::replay, {}},
    .mix_grad = {"mix_grad", "", mix_grad::replay, {}},
    .undo = {"undo", "Phase A / PA (backward of DW)", undo::replay, kUndoVariants},
    .read_grad = {"read_grad", "GDS (dots and scatter)", read_grad::replay, kReadGradVariants},
    .reduce = {"reduce", "", reduce::replay, {}},
    .parameter_gradients = {"parameter_gradients", "", parameter_gradients::replay, {}},
};

}  // namespace

const Registry& registry() { return kRegistry; }

}  // namespace sdm
