#include "kernels/registry.h"

namespace sdm {
namespace {

/// The GPU variants of a stage, in priority order; a build without CUDA has none.
#if SDM_WITH_CUDA
constexpr const Variant<gather::Params>* kGatherVariants[] = {&gather::rows, &gather::rows_l2};
constexpr const Variant<write::Params>* kWriteVariants[] = {
    &write::direct2, &write::direct, &write::cluster, &write::all_slices, &write::ring, &write::stream, &write::atomic,
};
constexpr const Variant<gather_grad::Params>* kGatherGradVariants[] = {&gather_grad::rows, &gather_grad::rows_r64};
constexpr const Variant<undo::Params>* kUndoVariants[] = {&undo::walk};
constexpr const Variant<read_grad::Params>* kReadGradVariants[] = {&read_grad::fused, &read_grad::split, &read_grad::atomic};
#else
constexpr std::span<const Variant<gather::Params>* const> kGatherVariants;
constexpr std::span<const Variant<write::Params>* const> kWriteVariants;
constexpr std::span<const Variant<gather_grad::Params>* const> kGatherGradVariants;
constexpr std::span<const Variant<undo::Params>* const> kUndoVariants;
constexpr std::span<const Variant<read_grad::Params>* const> kReadGradVariants;
#endif

constexpr Registry kRegistry{
    .group_entries = {"group_entries", "slot sort, payload (kpay/qpay)", group_entries::replay, {}},
    .decay_sums = {"decay_sums", "records (krec/qrec/PA record)", decay_sums::replay, {}},
    .interactions = {"interactions", "A and QK", interactions::replay, {}},
    .solve = {"solve", "UT transform", solve::replay, {}},
    .combine = {"combine", "", combine::replay, {}},
    .gather = {"gather", "token gather", gather::replay, kGatherVariants},
    .mix = {"mix", "dual matmul", mix::replay, {}},
    .write = {"write", "DW (decay and write)", write::replay, kWriteVariants},
    .combine_grad = {"combine_grad", "", combine_grad::replay, {}},
    .gather_grad = {"gather_grad", "GWR", gather_grad::replay, kGatherGradVariants},
    .mix_grad = {"mix_grad", "", mix_grad::replay, {}},
    .undo = {"undo", "Phase A / PA (backward of DW)", undo::replay, kUndoVariants},
    .read_grad = {"read_grad", "GDS (dots and scatter)", read_grad::replay, kReadGradVariants},
    .reduce = {"reduce", "", reduce::replay, {}},
    .parameter_gradients = {"parameter_gradients", "", parameter_gradients::replay, {}},
};

}  // namespace

const Registry& registry() { return kRegistry; }

}  // namespace sdm
