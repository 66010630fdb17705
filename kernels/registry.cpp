#include "kernels/registry.h"

namespace sdm {
namespace {

#if defined(SDM_WITH_CUDA)
constexpr const Variant<group_entries::Params>* kGroupEntriesVariants[] = {&group_entries::block_sort,
                                                                           &group_entries::radix};
constexpr const Variant<decay_sums::Params>* kDecaySumsVariants[] = {&decay_sums::group_scan};
constexpr const Variant<interactions::Params>* kInteractionsVariants[] = {&interactions::group_pairs};
constexpr const Variant<solve::Params>* kSolveVariants[] = {&solve::blocked, &solve::columns};
constexpr const Variant<combine::Params>* kCombineVariants[] = {&combine::simt};
constexpr const Variant<mix::Params>* kMixVariants[] = {&mix::simt, &mix::tensor};
constexpr const Variant<combine_grad::Params>* kCombineGradVariants[] = {&combine_grad::simt};
constexpr const Variant<mix_grad::Params>* kMixGradVariants[] = {&mix_grad::simt, &mix_grad::tensor};
constexpr const Variant<reduce::Params>* kReduceVariants[] = {&reduce::planes};
constexpr const Variant<parameter_gradients::Params>* kParameterGradientsVariants[] = {&parameter_gradients::simt};
#else
constexpr std::span<const Variant<group_entries::Params>* const> kGroupEntriesVariants;
constexpr std::span<const Variant<decay_sums::Params>* const> kDecaySumsVariants;
constexpr std::span<const Variant<interactions::Params>* const> kInteractionsVariants;
constexpr std::span<const Variant<solve::Params>* const> kSolveVariants;
constexpr std::span<const Variant<combine::Params>* const> kCombineVariants;
constexpr std::span<const Variant<mix::Params>* const> kMixVariants;
constexpr std::span<const Variant<combine_grad::Params>* const> kCombineGradVariants;
constexpr std::span<const Variant<mix_grad::Params>* const> kMixGradVariants;
constexpr std::span<const Variant<reduce::Params>* const> kReduceVariants;
constexpr std::span<const Variant<parameter_gradients::Params>* const> kParameterGradientsVariants;
#endif

constexpr Registry kRegistry{
    .group_entries = {"group_entries", "slot sort, payload (kpay/qpay)", group_entries::replay, kGroupEntriesVariants},
    .decay_sums = {"decay_sums", "records (krec/qrec/PA record)", decay_sums::replay, kDecaySumsVariants},
    .interactions = {"interactions", "A and QK", interactions::replay, kInteractionsVariants},
    .solve = {"solve", "UT transform", solve::replay, kSolveVariants},
    .combine = {"combine", "", combine::replay, kCombineVariants},
    .gather = {"gather", "token gather", gather::replay, {}},
    .mix = {"mix", "dual matmul", mix::replay, kMixVariants},
    .write = {"write", "DW (decay and write)", write::replay, {}},
    .combine_grad = {"combine_grad", "", combine_grad::replay, kCombineGradVariants},
    .gather_grad = {"gather_grad", "GWR", gather_grad::replay, {}},
    .mix_grad = {"mix_grad", "", mix_grad::replay, kMixGradVariants},
    .undo = {"undo", "Phase A / PA (backward of DW)", undo::replay, {}},
    .read_grad = {"read_grad", "GDS (dots and scatter)", read_grad::replay, {}},
    .reduce = {"reduce", "", reduce::replay, kReduceVariants},
    .parameter_gradients = {"parameter_gradients", "", parameter_gradients::replay, kParameterGradientsVariants},
};

}  // namespace

const Registry& registry() { return kRegistry; }

}  // namespace sdm
