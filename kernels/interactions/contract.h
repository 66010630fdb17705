#pragma once
#include "numerics/fp.h"

namespace sdm::interactions {

/// One term of A or QK: acc + (x*exp(log_x - log_k)) * k, entry x at the later (or same) token, k at the earlier one.
SDM_HD float add_pair(float x, float log_x, float k, float log_k, float acc) {
  return fma_rn(x * exp_rn(log_x - log_k), k, acc);
}

}  // namespace sdm::interactions
