#pragma once
// The GPU variants of every stage, in priority order: "auto" takes the first that accepts. cuda_variants.cpp lists
// them; a build without CUDA compiles no_cuda_variants.cpp instead, whose lists are empty.
#include "kernels/registry.h"

namespace sdm {

template <typename Params>
using VariantList = std::span<const Variant<Params>* const>;

struct Variants {
  VariantList<group_entries::Params> group_entries;
  VariantList<decay_sums::Params> decay_sums;
  VariantList<interactions::Params> interactions;
  VariantList<solve::Params> solve;
  VariantList<combine::Params> combine;
  VariantList<gather::Params> gather;
  VariantList<mix::Params> mix;
  VariantList<write::Params> write;
  VariantList<combine_grad::Params> combine_grad;
  VariantList<gather_grad::Params> gather_grad;
  VariantList<mix_grad::Params> mix_grad;
  VariantList<undo::Params> undo;
  VariantList<read_grad::Params> read_grad;
  VariantList<reduce::Params> reduce;
  VariantList<parameter_gradients::Params> parameter_gradients;
  VariantList<dense_rescan::Params> dense_rescan;
};

Variants variants();

}  // namespace sdm
