#pragma once
#include <string>
#include <vector>

#include "io/safetensors.h"
#include "kernels/data.h"

namespace sdm {

/// The description that a stored case carries under the metadata key `case` (spec 2.7).
struct GoldenCase {
  struct Kernel {
    std::string name;  ///< gather, write, gwr, pa, gds
    std::int32_t groups = 1, planes = 1;
  };
  std::string name;
  Dims dims;
  DType bank = DType::bf16, grad = DType::bf16;
  std::vector<Kernel> kernels;

  const Kernel* kernel(std::string_view kernel_name) const;
};

/// Throws UserError naming the file and the field that is missing, of the wrong type or out of range.
GoldenCase read_golden_case(const SafetensorsFile& file);

}  // namespace sdm
