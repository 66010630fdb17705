#pragma once
#include <span>
#include <vector>

#include "base/parallel.h"
#include "workload/sparse.h"

namespace sdm {

struct OracleOptions {
  /// Round rows to the bank dtype at every chunk end, and rows of the gradient bank to the grad dtype where `undo` and
  /// `read_grad` do. Off: the pure recurrence of spec 1.1, as finite differences see it.
  bool round_bank = true;
  /// The backward sees the pre-write rows as the workload's snapshot format gives them back (spec 2.5).
  bool snapshot_round_trip = true;
  bool backward = true;
  /// Also fill OracleOutput::sigma (docs/oracle.md).
  bool bounds = true;
};

/// One output: values in double, and a standard deviation per element of the error that a correct fp32
/// implementation of the chunked form may have there. Bounds are stated multiples of it (oracle/bounds.h).
struct OracleOutput {
  std::vector<double> value;
  std::vector<float> sigma;  ///< empty without OracleOptions::bounds
};

/// Layouts as the inputs': N = chunks(), time-major, padding tokens hold zeros. Gradients are empty without backward.
struct OracleResult {
  OracleOutput reading;       ///< [N, C, D]
  OracleOutput final_bank;    ///< [P*slots, D]
  OracleOutput d_bank;        ///< [P*slots, D] gradient of the initial bank
  OracleOutput d_k, d_q;      ///< [N, C, W], [N, C, R]
  OracleOutput d_v;           ///< [N, C, D]
  OracleOutput d_beta;        ///< [N, C]
  OracleOutput d_g;           ///< [N, C, 1 or W]
  std::vector<double> delta;  ///< [N, C, D] the delta of spec 1.1
  std::vector<double>
      retrieved;  ///< [N, C, D] the token's full `retrieved` of spec 1.1, earlier writes of its chunk included
};

/// The fp64 oracle: the token-by-token recurrence of spec 1.1 and its reverse.
/// Where the workload stores the gather's weights in bf16, that rounding is part of what it computes (spec 2.2), and
/// the oracle makes it too, whatever the options.
/// `bank` and `d_final_bank` are [P*slots, D], exact floats of their dtypes; an empty `d_final_bank` is zero.
/// Runs streams in parallel; results do not depend on the number of threads.
OracleResult run_oracle(const SparseWorkload& workload, const SparseInputs& inputs, std::span<const float> bank,
                        std::span<const float> d_final_bank, const OracleOptions& options, Parallel& threads);

}  // namespace sdm
