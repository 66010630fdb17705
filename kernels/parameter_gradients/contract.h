#pragma once
// The arithmetic and the orders of spec 1.3, shared by replay and kernels.
//   dm, dqk      fold over d ascending of (token row t, delta_v row j); dm is negated at the end
//   d_beta       (dot + pairs): lane l of 32 folds d = l, l+32, ..; lanes added at distance 16, 8, 4, 2, 1; pairs
//   likewise over j < t row          earlier members ascending;  col: later members ascending;  read: reads of the slot
//   with token >= t, ascending rd           write members with token <= t, ascending d_gate       ((d_decay +
//   later-or-own d_log_k, last first) + earlier d_rex, first first) + d_log_q of reads, last first;
//                each running sum starts at +0
//   d_g, scalar  entries ascending, starting at +0
#include "numerics/fp.h"

namespace sdm::parameter_gradients {

/// acc + (d_pair * strength) * exp(log_later - log_earlier); d_pair is dA (= beta*dm of the later token) or dQK.
SDM_HD float add_pair(float d_pair, float strength, float log_later, float log_earlier, float acc) {
  return fma_rn(d_pair * strength, exp_rn(log_later - log_earlier), acc);
}
SDM_HD float d_a(float beta, float dm) { return beta * dm; }

struct WriteSums {
  float row = 0.0f, col = 0.0f, read = 0.0f;
};
struct WriteGradients {
  float d_k, d_log_k, d_rex;
};
SDM_HD WriteGradients write_gradients(float k, float log_k, float rex, float d_kw, float d_ww, const WriteSums& s) {
  const float decay = exp_rn(log_k), rest = exp_rn(rex);
  const float direct = fma_rn(d_ww, rest, d_kw * decay);
  const float d_k = ((direct + s.row) + s.col) + s.read;
  const float d_log_k = fma_rn(-k, s.read, fma_rn(-k, s.col, fma_rn(k, s.row, (k * decay) * d_kw)));
  return {d_k, d_log_k, (k * rest) * d_ww};
}

struct ReadGradients {
  float d_q, d_log_q;
};
SDM_HD ReadGradients read_gradients(float q, float log_q, float d_qw, float rd) {
  const float decay = exp_rn(log_q);
  return {fma_rn(d_qw, decay, rd), fma_rn(q, rd, (q * decay) * d_qw)};
}

}  // namespace sdm::parameter_gradients
