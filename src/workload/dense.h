#pragma once
#include <cstdint>

#include "base/dtype.h"

namespace sdm {

enum class DqMode : std::uint8_t { off, atomic, ordered };

/// The dense workload: re-scan of the states of a chunked gated delta rule (spec 4). Chunks are 64 tokens.
struct DenseWorkload {
  std::int32_t batch = 1;      ///< B
  std::int32_t tokens = 512;   ///< T, a multiple of 64
  std::int32_t heads = 2;      ///< HV
  std::int32_t key_dim = 64;   ///< K: 64 or 128
  std::int32_t value_dim = 64; ///< V: a multiple of 64
  DType io_dtype = DType::bf16;  ///< bf16 | f16
  bool initial_state = true;
  DqMode dq = DqMode::ordered;
  std::uint64_t seed = 1;
};

}  // namespace sdm
