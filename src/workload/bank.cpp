#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/parallel.h"
#include "numerics/formats.h"
#include "workload/bank_value.h"
#include "workload/sparse.h"
#include "workload/special_values.h"

namespace sdm {
namespace {

constexpr std::int64_t kGrain = 1 << 16;  // elements per task; a multiple of 4 keeps tasks on whole blocks

void store(float value, float& out) { out = value; }
void store(float value, bf16_t& out) { out.bits = bf16_bits_of_finite(value); }

// Elements [begin, end) of the bank to out[0 ..]. Whole blocks in the middle, single elements at the ragged ends.
template <typename T>
void fill_random(std::uint64_t seed, Purpose bank, std::int64_t begin, std::int64_t end, T* out) {
  std::int64_t element = begin;
  for (; element < end && element % 4 != 0; ++element) {
    store(bank_value(seed, bank, static_cast<std::uint64_t>(element)), *out++);
  }
  const std::int64_t quads = (end - element) / 4;
  const auto first_quad = static_cast<std::uint64_t>(element / 4);
  for (std::int64_t i = 0; i < quads; ++i) {
    const RandomBlock block = bank_block(seed, bank, first_quad + static_cast<std::uint64_t>(i));
    for (int j = 0; j < 4; ++j) store(signed_unit(block.word[j]), out[4 * i + j]);
  }
  out += 4 * quads;
  for (element += 4 * quads; element < end; ++element) {
    store(bank_value(seed, bank, static_cast<std::uint64_t>(element)), *out++);
  }
}

void store_any(float value, float& out) { out = value; }
void store_any(float value, bf16_t& out) { out = to_bf16(value); }

/// The same numbers with special values among them.
template <typename T>
void fill_special(const SparseWorkload& workload, Purpose bank, std::int64_t begin, std::int64_t end, T* out) {
  for (std::int64_t i = begin; i < end; ++i) {
    const auto element = static_cast<std::uint64_t>(i);
    const std::uint32_t word = special_word(workload.seed, bank, element, 0, 0);
    store_any(with_special(workload.values, Allowed::any, bank_value(workload.seed, bank, element), word), *out++);
  }
}

template <typename T>
void fill_typed(const SparseWorkload& workload, const SparseInputs& inputs, BankKind kind, std::int64_t first,
                std::int64_t count, T* out, Parallel& threads) {
  const bool memory = kind == BankKind::memory;
  const std::vector<float>& captured = memory ? inputs.bank : inputs.d_final_bank;
  const bool zero = !memory && !workload.final_bank_gradient;
  SDM_REQUIRE(captured.empty() || static_cast<std::int64_t>(captured.size()) == workload.bank_elements(),
              "a captured bank of {} elements for a bank of {}", captured.size(), workload.bank_elements());
  threads.for_ranges(count, kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (!captured.empty()) {
      const float* from = captured.data() + first;
      for (std::int64_t i = begin; i < end; ++i) store(from[i], out[i]);
    } else if (zero) {
      std::memset(out + begin, 0, static_cast<std::size_t>(end - begin) * sizeof(T));
    } else if (const Purpose bank = memory ? Purpose::memory_bank : Purpose::gradient_bank;
               workload.values == Values::ordinary) {
      fill_random(workload.seed, bank, first + begin, first + end, out + begin);
    } else {
      fill_special(workload, bank, first + begin, first + end, out + begin);
    }
  });
}

}  // namespace

void fill_bank(const SparseWorkload& workload, const SparseInputs& inputs, BankKind kind, std::int64_t first,
               std::int64_t count, void* out, Parallel& threads) {
  SDM_REQUIRE(first >= 0 && count >= 0 && count <= workload.bank_elements() - first,
              "elements [{}, {} + {}) of a bank of {}", first, first, count, workload.bank_elements());
  const DType dtype = kind == BankKind::memory ? workload.bank_dtype : workload.grad_dtype;
  if (dtype == DType::bf16) {
    return fill_typed(workload, inputs, kind, first, count, static_cast<bf16_t*>(out), threads);
  }
  SDM_REQUIRE(dtype == DType::f32, "a bank of {}", name_of(dtype));
  fill_typed(workload, inputs, kind, first, count, static_cast<float*>(out), threads);
}

}  // namespace sdm
