#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "numerics/formats.h"
#include "workload/bank_value.h"
#include "workload/captured.h"
#include "workload/slots.h"
#include "workload/sparse.h"
#include "workload/special_values.h"

namespace sdm {
namespace {

// Coordinates of every number are (element of the token, token, stream): the chunk size, the number of tokens and the
// number of streams do not change what a token holds.
struct TokenAt {
  std::uint64_t seed;
  std::uint32_t token, stream;
};

// out[i] = convert(word i%4 of block i/4).
template <typename Convert>
void fill_row(const TokenAt& at, Purpose purpose, std::span<float> out, Convert convert) {
  for (std::size_t i = 0; i < out.size(); i += 4) {
    const RandomBlock block = random_block(at.seed, purpose, static_cast<std::uint32_t>(i / 4), at.token, at.stream);
    const std::size_t n = std::min<std::size_t>(4, out.size() - i);
    for (std::size_t j = 0; j < n; ++j) out[i + j] = convert(block.word[j]);
  }
}

// Uniform with variance 1/width, so that the squares of a token's strengths sum to about 1: the delta rule then neither
// explodes nor dies out. sqrt is correctly rounded by IEEE 754 and so portable.
void fill_strengths(const TokenAt& at, Purpose purpose, DType dtype, std::span<float> out) {
  const float scale = std::sqrt(3.0f / static_cast<float>(out.size()));
  fill_row(at, purpose, out, [&](std::uint32_t word) {
    const float value = signed_unit(word) * scale;
    return dtype == DType::bf16 ? float_of_bf16(bf16_bits_of_finite(value)) : value;
  });
}

// (-0.1, 0]; one in 16 is an exact zero (no decay), chosen by bits that the value itself does not use. 0 - x rather
// than -x: never a negative zero.
float decay_of(std::uint32_t word) { return (word & 15) == 0 ? 0.0f : 0.0f - 0.1f * unit(word); }

/// Special values in place of some of a token's numbers, where the workload asks for them.
void spoil_row(const SparseWorkload& workload, const TokenAt& at, Purpose purpose, Allowed allowed,
               std::span<float> row) {
  if (workload.values == Values::ordinary) return;
  const bool narrow =
      (purpose == Purpose::write_strength || purpose == Purpose::read_strength) && workload.value_dtype == DType::bf16;
  for (std::size_t i = 0; i < row.size(); ++i) {
    const float value =
        with_special(workload.values, allowed, row[i], special_word(at.seed, purpose, i, at.token, at.stream));
    row[i] = narrow ? from_bf16(to_bf16(value)) : value;
  }
}

template <typename T>
std::span<T> row_of(std::vector<T>& array, std::int64_t row, std::int64_t width) {
  return std::span<T>(array).subspan(static_cast<std::size_t>(row * width), static_cast<std::size_t>(width));
}

void resize_inputs(const SparseWorkload& workload, std::int64_t rows, std::int64_t gates, SparseInputs& inputs) {
  const auto elements = [&](std::int64_t width) { return static_cast<std::size_t>(rows * width); };
  inputs.k_idx.resize(elements(workload.writes));
  inputs.q_idx.resize(elements(workload.reads));
  inputs.k.resize(elements(workload.writes));
  inputs.q.resize(elements(workload.reads));
  inputs.g.resize(elements(gates));
  inputs.v.resize(elements(workload.head_dim));
  inputs.beta.resize(elements(1));
  inputs.d_reading.resize(elements(workload.head_dim));
}

void draw_rows(const SlotLaw& law, Purpose purpose, const TokenAt& at, std::int64_t slots, std::span<std::int32_t> out,
               SlotScratch& scratch) {
  law.draw(purpose, at.stream, at.token, out, scratch);
  for (std::int32_t& index : out) index += static_cast<std::int32_t>(at.stream * slots);
}

/// Everything of token row `row` but its slots.
void draw_numbers(const SparseWorkload& workload, const TokenAt& at, std::int64_t row, std::int64_t gates,
                  SparseInputs& inputs) {
  const auto draw = [&](std::vector<float>& array, std::int64_t width, Purpose purpose, Allowed allowed, auto&& fill) {
    const std::span<float> out = row_of(array, row, width);
    fill(out, purpose);
    spoil_row(workload, at, purpose, allowed, out);
  };
  const auto strengths = [&](std::span<float> out, Purpose purpose) {
    fill_strengths(at, purpose, workload.value_dtype, out);
  };
  const auto by = [&](float (*convert)(std::uint32_t)) {
    return [&at, convert](std::span<float> out, Purpose purpose) { fill_row(at, purpose, out, convert); };
  };
  draw(inputs.k, workload.writes, Purpose::write_strength, Allowed::any, strengths);
  draw(inputs.q, workload.reads, Purpose::read_strength, Allowed::any, strengths);
  draw(inputs.g, gates, Purpose::decay, Allowed::not_above_zero, by(decay_of));
  draw(inputs.v, workload.head_dim, Purpose::value, Allowed::any, by(signed_unit));
  draw(inputs.beta, 1, Purpose::write_gate, Allowed::from_zero, by(unit));
  draw(inputs.d_reading, workload.head_dim, Purpose::d_reading, Allowed::any, by(signed_unit));
}

TokenAt token_at(const SparseWorkload& workload, std::int64_t row) {
  const std::int64_t chunk = row / workload.chunk;
  const std::int64_t token = chunk / workload.streams * workload.chunk + row % workload.chunk;
  return {workload.seed, static_cast<std::uint32_t>(token), static_cast<std::uint32_t>(chunk % workload.streams)};
}

/// For captured inputs of a forward alone: the gradient that a generated workload of this seed would get.
void draw_d_reading(const SparseWorkload& workload, std::int64_t rows, SparseInputs& inputs, Parallel& threads) {
  inputs.d_reading.resize(static_cast<std::size_t>(rows * workload.head_dim));
  threads.for_ranges(rows, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const TokenAt at = token_at(workload, row);
      if (at.token >= static_cast<std::uint32_t>(workload.tokens)) continue;
      fill_row(at, Purpose::d_reading, row_of(inputs.d_reading, row, workload.head_dim), signed_unit);
    }
  });
}

}  // namespace

SparseInputs generate_inputs(const SparseWorkload& workload, Parallel& threads) {
  validate(workload);
  const std::int64_t rows = workload.chunks() * workload.chunk;  // token rows, padding included
  if (workload.distribution.kind == Distribution::Kind::replay) {
    SparseInputs captured = load_captured_inputs(workload);
    if (captured.d_reading.empty()) draw_d_reading(workload, rows, captured, threads);
    return captured;
  }
  const std::int64_t gates = workload.gate == Gate::token ? 1 : workload.writes;
  SparseInputs inputs;
  resize_inputs(workload, rows, gates, inputs);
  const SlotLaw law(workload);

  threads.for_ranges(rows, 64, [&](std::int64_t begin, std::int64_t end) {
    SlotScratch scratch;
    for (std::int64_t row = begin; row < end; ++row) {
      const TokenAt at = token_at(workload, row);
      if (at.token >= static_cast<std::uint32_t>(workload.tokens)) continue;  // padding keeps its zeros
      draw_rows(law, Purpose::write_slots, at, workload.slots, row_of(inputs.k_idx, row, workload.writes), scratch);
      draw_rows(law, Purpose::read_slots, at, workload.slots, row_of(inputs.q_idx, row, workload.reads), scratch);
      draw_numbers(workload, at, row, gates, inputs);
    }
  });
  return inputs;
}

}  // namespace sdm
