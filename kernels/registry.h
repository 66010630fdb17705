#pragma once
// The one list of stages and variants, in priority order.
#include "kernels/combine/combine.h"
#include "kernels/combine_grad/combine_grad.h"
#include "kernels/decay_sums/decay_sums.h"
#include "kernels/dense_rescan/dense_rescan.h"
#include "kernels/gather/gather.h"
#include "kernels/gather_grad/gather_grad.h"
#include "kernels/group_entries/group_entries.h"
#include "kernels/interactions/interactions.h"
#include "kernels/mix/mix.h"
#include "kernels/mix_grad/mix_grad.h"
#include "kernels/parameter_gradients/parameter_gradients.h"
#include "kernels/read_grad/read_grad.h"
#include "kernels/reduce/reduce.h"
#include "kernels/solve/solve.h"
#include "kernels/undo/undo.h"
#include "kernels/write/write.h"

namespace sdm {

class PlantedFault;  // check/planted_fault.h

/// Every stage: those of the sparse operator in the order of a training step, then the dense workload's one.
struct Registry {
  Stage<group_entries::Params> group_entries;
  Stage<decay_sums::Params> decay_sums;
  Stage<interactions::Params> interactions;
  Stage<solve::Params> solve;
  Stage<combine::Params> combine;
  Stage<gather::Params> gather;
  Stage<mix::Params> mix;
  Stage<write::Params> write;
  Stage<combine_grad::Params> combine_grad;
  Stage<gather_grad::Params> gather_grad;
  Stage<mix_grad::Params> mix_grad;
  Stage<undo::Params> undo;
  Stage<read_grad::Params> read_grad;
  Stage<reduce::Params> reduce;
  Stage<parameter_gradients::Params> parameter_gradients;
  Stage<dense_rescan::Params> dense_rescan;
  PlantedFault* fault = nullptr;  ///< spoils what stages leave, to prove that checks notice; null: honest

  /// Calls f(stage) for every stage, in order.
  template <typename F>
  void each(F&& f) const {
    each_sparse(f);
    f(dense_rescan);
  }
  template <typename F>
  void each_sparse(F&& f) const {
    f(group_entries), f(decay_sums), f(interactions), f(solve), f(combine), f(gather), f(mix), f(write),
        f(combine_grad), f(gather_grad), f(mix_grad), f(undo), f(read_grad), f(reduce), f(parameter_gradients);
  }
};

const Registry& registry();

}  // namespace sdm
