#pragma once
#include <cstdint>
#include <vector>

#include "oracle/stream.h"

namespace sdm::oracle {

/// Unit roundoff of binary32: a rounded result is off by at most u times its size.
inline constexpr double kU = 0x1p-24;
inline constexpr double kU2 = kU * kU;

/// Lower triangular (diagonal included), row-major [n, n].
struct Triangle {
  int n = 0;
  std::vector<double> x;
  Triangle() = default;
  explicit Triangle(int size) : n(size), x(std::size_t(size) * size, 0.0) {}
  double& operator()(int i, int j) { return x[std::size_t(i) * n + j]; }
  double operator()(int i, int j) const { return x[std::size_t(i) * n + j]; }
};

/// A weight of the chunked form and the variance of its relative error.
struct Weight {
  double value = 0, relative = 0;
};

/// Sizes of the chunked form's intermediates (spec 1.2) for one stream and chunk, and the variances of the errors that
/// fp32 makes in them: what the error of a result is derived from, never the result itself.
struct ChunkForm {
  int n = 0;                      ///< valid tokens
  std::vector<Weight> k, write;   ///< [n, W] k*exp(log_k), k*exp(rex)
  std::vector<double> gather_k;   ///< [n, W] relative variance of the gather's k weight, which may be stored in bf16
  std::vector<Weight> q;          ///< [n, R] q*exp(log_q)
  std::vector<double> gather_q;   ///< [n, R]
  std::vector<Weight> group;      ///< [written] cpe
  std::vector<int> members;       ///< [written] write entries of the group
  std::vector<int> k_group;       ///< [n, W] index into StreamMap::written
  std::vector<int> q_group;       ///< [n, R] or -1 when the chunk does not write the slot
  std::vector<double> log2;       ///< [written] relative variance that the decay sums bring to any weight of the group
  Triangle S, QK;                 ///< values
  Triangle S2, QK2, QS2;          ///< squares of S, QK and QK*S
  Triangle L_var, S_var, QK_var;  ///< variances: L = diag(beta)*A, the solve's own roundings, QK
  Triangle QB_var;                ///< of QB and of its use, per squared input
};

/// All chunks of a stream.
std::vector<ChunkForm> make_chunk_forms(const StreamMap& map);

}  // namespace sdm::oracle
