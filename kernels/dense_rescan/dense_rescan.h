#pragma once
#include <cstdint>

#include "base/dtype.h"
#include "kernels/stage.h"
#include "workload/dense.h"

namespace sdm::dense_rescan {

inline constexpr int kChunk = DenseWorkload::kChunk;
/// Columns of V that one partial of dq sums over: bit-relevant.
inline constexpr int kTile = 64;

/// Re-scan of the states of a chunked gated delta rule (spec 4). A state row is K x V; row = (b*NT + chunk)*HV + head
/// for checkpoints, (b*T + token)*HV + head for the others.
///
/// Bits (replay and exact variants): wh[t,v] = fold over k ascending of (w, io(h)); v_new = io(u - wh);
/// h[k,v] = fold over t ascending of (kg, v_new), starting at the rounded product exp2(gd)*h; a partial of dq[t,k] =
/// fold over the 64 columns of a tile, ascending, of (d_out, io(h)); dq = ((partial 0 + partial 1) + ..).
struct Params {
  std::int32_t batch = 0, chunks = 0, heads = 0, key_dim = 0, value_dim = 0;  ///< B, NT, HV, K, V
  DType io = DType::bf16;                                                     ///< bf16 | f16
  DqMode dq_mode = DqMode::ordered;
  const void* w = nullptr;       ///< [B, T, HV, K] io
  const void* kg = nullptr;      ///< [B, T, HV, K] io
  const void* u = nullptr;       ///< [B, T, HV, V] io
  const void* d_out = nullptr;   ///< [B, T, HV, V] io; unused with dq off
  const float* g2 = nullptr;     ///< [B, T, HV, K]; the last row of a chunk is used
  const float* h0 = nullptr;     ///< [B, HV, K, V]; null: zeros
  void* checkpoints = nullptr;   ///< [B, NT, HV, K, V] io, out
  void* v_new = nullptr;         ///< [B, T, HV, V] io, out
  float* dq = nullptr;           ///< [B, T, HV, K] out; null with dq off
  float* final_state = nullptr;  ///< [B, HV, K, V] out

  std::int64_t streams() const { return std::int64_t{batch} * heads; }
  std::int64_t rows() const { return streams() * chunks * kChunk; }
};

void replay(const Params& params, Parallel& threads);

// Variants (GPU). dq of the atomic mode varies from run to run with every one of them.
extern const Variant<Params> wgmma;  ///< Hopper: TMA ring, warpgroup MMA, state in registers; repeatable
extern const Variant<Params>
    tcgen05;                        ///< Blackwell: the same plan with the state in tensor memory; repeatable, not run
extern const Variant<Params> mma;   ///< mma.sync of sm_80 and newer; repeatable
extern const Variant<Params> simt;  ///< fp32 multiply-adds; the replay's bits

}  // namespace sdm::dense_rescan
