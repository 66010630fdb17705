#pragma once
#include "numerics/fp.h"

namespace sdm::interactions {

/// What entry x at the later (or same) token brings to a pair with a member of decay log_k.
SDM_HD float pair_factor(float x, float log_x, float log_k) { return x * exp_rn(log_x - log_k); }

/// One term of A or QK: acc + (x*exp(log_x - log_k)) * k, entry x at the later (or same) token, k at the earlier one.
SDM_HD float add_pair(float x, float log_x, float k, float log_k, float acc) {
  return fma_rn(pair_factor(x, log_x, log_k), k, acc);
}

}  // namespace sdm::interactions
