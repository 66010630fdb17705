#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace sdm {

class Parallel;

enum class DqMode : std::uint8_t { off, atomic, ordered };

/// The dense workload: re-scan of the states of a chunked gated delta rule (spec 4). Chunks are 64 tokens.
struct DenseWorkload {
  std::int32_t batch = 1;        ///< B
  std::int32_t tokens = 512;     ///< T, a multiple of 64
  std::int32_t heads = 2;        ///< HV
  std::int32_t key_dim = 64;     ///< K: 64 or 128
  std::int32_t value_dim = 64;   ///< V: a multiple of 64
  DType io_dtype = DType::bf16;  ///< bf16 | f16
  bool initial_state = true;
  DqMode dq = DqMode::ordered;
  std::uint64_t seed = 1;

  static constexpr std::int32_t kChunk = 64;
  std::int32_t chunks() const { return tokens / kChunk; }  ///< NT
  std::int64_t streams() const { return std::int64_t{batch} * heads; }
  std::int64_t rows() const { return streams() * tokens; }  ///< rows of [B, T, HV, .]
};

/// Inputs of the re-scan, row-major; 16-bit values are patterns of the io dtype.
struct DenseInputs {
  std::vector<std::uint16_t> w, kg;     ///< [B, T, HV, K]
  std::vector<std::uint16_t> u, d_out;  ///< [B, T, HV, V]
  std::vector<float> g2;                ///< [B, T, HV, K] log2-decay summed from the chunk's first token
  std::vector<float> h0;                ///< [B, HV, K, V]; empty without initial state
};

/// One chunk of the tokens that w, u, kg and g2 are made of (one sequence, one head), before any rounding to io.
struct DenseTokens {
  std::vector<float> k;      ///< [64, K] of length 1
  std::vector<float> v;      ///< [64, V] in [-1, 1)
  std::vector<float> beta;   ///< [64] in [0, 1)
  std::vector<float> decay;  ///< [64, K] log2-decay of one token, in (-kMostDecay, 0]
};

/// log2 of the strongest decay of a token: a chunk of 64 keeps about 0.4 of a state.
inline constexpr float kMostDecay = 0.04f;

/// The tokens of chunk `chunk` of stream `stream` = batch*HV + head: a pure function of the seed and its arguments.
DenseTokens draw_dense_tokens(const DenseWorkload& workload, std::int64_t stream, std::int32_t chunk);

/// Draws tokens and takes them through the chunk's UT transform in fp32 of a fixed order (docs/dense.md): the same bits
/// on any machine and any number of threads.
DenseInputs generate_dense_inputs(const DenseWorkload& workload, Parallel& threads);

}  // namespace sdm
