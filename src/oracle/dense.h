#pragma once
#include <span>
#include <string>
#include <vector>

#include "workload/dense.h"

namespace sdm::oracle {

/// One (sequence, head) of a dense workload in double; rows of other heads are left out.
struct DenseStream {
  int chunks = 0, key_dim = 0, value_dim = 0;
  DType io = DType::bf16;
  std::vector<double> w, kg;     ///< [T, K]
  std::vector<double> u, d_out;  ///< [T, V]; d_out may be empty
  std::vector<double> decay;     ///< [NT, K] 2^(last g2 of the chunk)
  std::vector<double> h0;        ///< [K, V]
};
DenseStream dense_stream(const DenseWorkload& workload, const DenseInputs& inputs, std::int64_t stream);

/// What the re-scan makes of one stream. An empty array was not made and is not judged.
struct DenseStates {
  std::vector<double> checkpoints;  ///< [NT, K, V]
  std::vector<double> v_new;        ///< [T, V]
  std::vector<double> dq;           ///< [T, K]
  std::vector<double> final_state;  ///< [K, V]
};

/// The chunked formula of spec 4 in double, rounded to io where it says so.
DenseStates run_dense_oracle(const DenseStream& stream);

/// States at chunk begins and at the end (no v_new, no dq) by the token recurrence
/// h = diag(2^g) h; h += k (beta (v - k^T h)) from the raw tokens: no chunk, no transform, no rounding.
DenseStates run_dense_tokens(const DenseWorkload& workload, std::span<const double> h0, std::int64_t stream);

/// Unit roundoff of one accumulation step: fp32 multiply-adds, or tensor cores, which align and truncate.
double accumulation_unit(bool tensor_cores);

struct DenseVerdict {
  double worst_ratio = 0;  ///< largest error / bound
  std::string failure;     ///< the first output out of bounds, in a sentence; empty: all hold
};

/// Every step of `actual` against double arithmetic on the states that `actual` itself went through: v_new and dq from
/// its own checkpoints, checkpoints and the final state from its own v_new. Bounds are fp32-tight at any length, since
/// nothing that a rounding to io may flip is carried along (docs/dense.md, "Steps").
DenseVerdict judge_dense_steps(const DenseStream& stream, const DenseStates& actual, double unit);

/// Which roundings tell `actual` and `expected` apart in judge_dense_drift.
enum class DriftSource { flips, io_everywhere };  ///< flips: both round to io; io_everywhere: `expected` never rounds

/// `actual` against an independent run of the same stream; bounds grow with what both may have rounded apart
/// (docs/dense.md, "Drift").
DenseVerdict judge_dense_drift(const DenseStream& stream, const DenseStates& actual, const DenseStates& expected,
                               DriftSource source);

/// Nearest io value, ties to even, subnormals kept, overflow to infinity.
double round_to_io(double x, DType io);
/// Distance between neighbouring io values around |x| (the wider side at a power of two).
double io_spacing(double x, DType io);

}  // namespace sdm::oracle
