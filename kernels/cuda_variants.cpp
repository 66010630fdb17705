#include "kernels/variants.h"

namespace sdm {
namespace {

template <typename Params, std::size_t kCount>
using List = const Variant<Params>* const[kCount];

constexpr List<group_entries::Params, 2> kGroupEntries = {&group_entries::block_sort, &group_entries::radix};
constexpr List<decay_sums::Params, 2> kDecaySums = {&decay_sums::chunk_scan, &decay_sums::group_scan};
constexpr List<interactions::Params, 2> kInteractions = {&interactions::few_pairs, &interactions::group_pairs};
constexpr List<solve::Params, 2> kSolve = {&solve::blocked, &solve::columns};
constexpr List<combine::Params, 2> kCombine = {&combine::teams, &combine::simt};
constexpr List<gather::Params, 3> kGather = {&gather::stream, &gather::rows, &gather::rows_l2};
constexpr List<mix::Params, 2> kMix = {&mix::simt, &mix::tensor};
constexpr List<write::Params, 8> kWrite = {&write::ring,       &write::direct2, &write::direct, &write::by_token,
                                           &write::all_slices, &write::cluster, &write::stream, &write::atomic};
constexpr List<combine_grad::Params, 1> kCombineGrad = {&combine_grad::simt};
constexpr List<gather_grad::Params, 5> kGatherGrad = {&gather_grad::ring, &gather_grad::stream, &gather_grad::two_parts,
                                                      &gather_grad::rows, &gather_grad::rows_r64};
constexpr List<mix_grad::Params, 2> kMixGrad = {&mix_grad::simt, &mix_grad::tensor};
constexpr List<undo::Params, 2> kUndo = {&undo::walk, &undo::walk_wide};
constexpr List<read_grad::Params, 3> kReadGrad = {&read_grad::fused, &read_grad::split, &read_grad::atomic};
constexpr List<reduce::Params, 1> kReduce = {&reduce::planes};
constexpr List<parameter_gradients::Params, 1> kParameterGradients = {&parameter_gradients::simt};
constexpr List<dense_rescan::Params, 4> kDenseRescan = {&dense_rescan::wgmma, &dense_rescan::tcgen05,
                                                        &dense_rescan::mma, &dense_rescan::simt};

}  // namespace

Variants variants() {
  return {kGroupEntries, kDecaySums, kInteractions,       kSolve,      kCombine, kGather,
          kMix,          kWrite,     kCombineGrad,        kGatherGrad, kMixGrad, kUndo,
          kReadGrad,     kReduce,    kParameterGradients, kDenseRescan};
}

}  // namespace sdm
