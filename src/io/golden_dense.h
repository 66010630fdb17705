#pragma once
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "workload/dense.h"

namespace sdm {

/// A stored dense case (spec 4): inputs as a workload's, outputs of the kernel that it was stored from.
struct GoldenDense {
  std::string name;
  DenseWorkload workload;
  DenseInputs inputs;
  std::vector<std::uint16_t> checkpoints, v_new;  ///< [B, NT, HV, K, V], [B, T, HV, V] patterns of the io dtype
};

/// Throws UserError naming the file and the field or tensor that is missing, of the wrong type or out of range.
GoldenDense read_golden_dense(const SafetensorsFile& file);

}  // namespace sdm
