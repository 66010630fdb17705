#pragma once
// Products of the decay sums, each rounded on its own in the association written (spec 2.4).
#include "numerics/fp.h"

namespace sdm::decay_sums {

SDM_HD float decayed(float strength, float log_decay) { return strength * exp_rn(log_decay); }
SDM_HD float undo_scale(float beta, float k_weight) { return (-beta) * k_weight; }

}  // namespace sdm::decay_sums
