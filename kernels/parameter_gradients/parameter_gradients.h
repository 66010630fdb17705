#pragma once
#include "kernels/data.h"
#include "kernels/stage.h"

namespace sdm::parameter_gradients {

/// Gradients of k, q, v, beta and g from what the backward steps left (spec 1.3). Orders: contract.h.
struct Params {
  Dims dims;
  Gate gate = Gate::token;
  AnyPtr k, q;                       ///< [N, C, W], [N, C, R] f32 | bf16
  const float* v = nullptr;          ///< [N, C, D]
  const float* beta = nullptr;       ///< [N, C]
  const float* d_reading = nullptr;  ///< [N, C, D]
  const float* retrieved = nullptr;  ///< [N, C, D]
  const float* delta_v = nullptr;    ///< [N, C, D]
  const float* d_dva = nullptr;      ///< [N, C, D]
  const float* a = nullptr;          ///< [N, C, C]
  const float* log_k = nullptr;      ///< [N, C, W]
  const float* rex = nullptr;        ///< [N, C, W]
  const float* log_q = nullptr;      ///< [N, C, R]
  const float* d_kw = nullptr;       ///< [N, C, W]
  const float* d_ww = nullptr;       ///< [N, C, W]
  const float* d_decay = nullptr;    ///< [N, C, W]
  const float* d_qw = nullptr;       ///< [N, C, R]
  Groups writes, reads;
  float* dm = nullptr;       ///< [N, C, C] scratch and output: -<d_dva[t], delta_v[j]>, j < t; zero at j = t
  float* dqk = nullptr;      ///< [N, C, C] scratch and output: <gr[t], delta_v[j]>, j <= t
  float* d_log_k = nullptr;  ///< [N, C, W] scratch and output
  float* d_rex = nullptr;    ///< [N, C, W] scratch and output
  float* d_log_q = nullptr;  ///< [N, C, R] scratch and output
  float* d_k = nullptr;      ///< [N, C, W] out
  float* d_q = nullptr;      ///< [N, C, R] out
  float* d_v = nullptr;      ///< [N, C, D] out
  float* d_beta = nullptr;   ///< [N, C] out, and scratch for its first half
  float* d_g = nullptr;      ///< [N, C, 1 or W] out
  float* d_gate = nullptr;   ///< [N, C, W] scratch: per-entry gate gradient; equals d_g where the gate is per write
};

void replay(const Params& params, Parallel& threads);

// Variants (GPU).
extern const Variant<Params> simt;  ///< tiled dots; a warp per token; a thread per entry, then its gate

}  // namespace sdm::parameter_gradients
