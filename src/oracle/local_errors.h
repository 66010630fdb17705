#pragma once
#include <vector>

#include "oracle/chunk_form.h"
#include "oracle/stream.h"

namespace sdm::oracle {

/// Variances of the errors that fp32 makes inside one chunk, given exact rows at its begin. All [n, columns].
struct ForwardErrors {
  std::vector<double> retrieved;   ///< of the token's `retrieved`, from weights and the gather's fold
  std::vector<double> delta;       ///< of delta
  std::vector<double> reading;     ///< of reading
  std::vector<double> retrieved0;  ///< not an error: the square of what the gather retrieves
};

/// Call with `s.before[chunk]` as the rows stood at the chunk's begin.
ForwardErrors forward_errors(const StreamMap& map, const ChunkForm& form, int chunk, const StreamState& s);

/// Variance of the error of d_delta, given exact gradient rows `s.grad_in`.
std::vector<double> backward_errors(const StreamMap& map, const ChunkForm& form, int chunk, const StreamState& s);

}  // namespace sdm::oracle
