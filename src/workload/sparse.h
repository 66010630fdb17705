#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace sdm {

/// How the pre-write rows are kept for the backward (spec 2.5). `none`: they are not, and only the forward runs.
/// `per_entry`: one row per write entry, bank dtype; the others hold one row per group of a chunk ("dense"): raw = bank
/// dtype, bf16 = an f32 bank rounded, fp8 and int4 with one f32 scale per row.
enum class SnapshotFormat : std::uint8_t { per_entry, raw, bf16, fp8, int4, none };
constexpr std::string_view name_of(SnapshotFormat format) {
  constexpr std::string_view names[] = {"per_entry", "raw", "bf16", "fp8", "int4", "none"};
  return names[static_cast<int>(format)];
}

constexpr bool is_quantized(SnapshotFormat format) {
  return format == SnapshotFormat::fp8 || format == SnapshotFormat::int4;
}

/// One log-decay per token, or one per write entry.
enum class Gate : std::uint8_t { token, write };

/// Which numbers the inputs hold. Anything but ordinary is to prove that host and device agree on such numbers
/// (docs/determinism.md); the fp64 oracle does not take infinities and NaN.
enum class Values : std::uint8_t {
  ordinary,
  tiny,      ///< every second number a subnormal or a signed zero
  infinite,  ///< one number in 64 an infinity, and subnormals and signed zeros
  nan        ///< one number in 64 a NaN of any sign and payload, and all of the above
};

/// Where slots come from. Within a token slots are always distinct, for writes and for reads.
struct Distribution {
  enum class Kind : std::uint8_t { uniform, zipf, hot, sequential, product_key, replay };
  Kind kind = Kind::uniform;
  double zipf_s = 1.1;          ///< zipf: exponent, > 0
  std::int64_t hot_slots = 64;  ///< hot: every entry falls on the first `hot_slots` slots; >= max(writes, reads)
  std::string file;             ///< replay: a safetensors file with the operator's inputs
};

/// A sparse-memory workload: everything that decides its bits (spec 1.1, 5.2).
struct SparseWorkload {
  std::int32_t streams = 1;         ///< P: (sequence, head) pairs
  std::int32_t tokens = 256;        ///< T per stream; the last chunk may be ragged
  std::int32_t chunk = 64;          ///< C in [2, 256]
  std::int32_t writes = 16;         ///< W in [1, 256], <= slots
  std::int32_t reads = 16;          ///< R in [1, 256], <= slots
  std::int32_t head_dim = 64;       ///< D in [1, 2^20]
  std::int64_t slots = 4096;        ///< rows per stream; streams * slots < 2^31
  DType bank_dtype = DType::bf16;   ///< bf16 | f32
  DType value_dtype = DType::f32;   ///< of the strengths k and q: bf16 | f32
  DType grad_dtype = DType::bf16;   ///< of the gradient bank: the bank's dtype, or f32 with a bf16 bank
  DType weight_dtype = DType::f32;  ///< of the gather's weights k*exp(log_k), q*exp(log_q): f32 | bf16
  DType index_dtype = DType::i32;   ///< i32 | i64
  Gate gate = Gate::token;
  SnapshotFormat snapshot = SnapshotFormat::raw;
  bool gather_saves = false;         ///< gather keeps the raw snapshot, not write
  bool gradient_copy = false;        ///< gather_grad copies the writes' gradient rows by group; undo reads them there
  bool final_bank_gradient = false;  ///< the backward starts from a random d_final_bank instead of zero
  Distribution distribution;
  std::uint64_t seed = 1;
  Values values = Values::ordinary;

  std::int32_t steps() const { return (tokens + chunk - 1) / chunk; }
  std::int64_t chunks() const { return std::int64_t{steps()} * streams; }
  bool saved_by_gather() const { return snapshot == SnapshotFormat::per_entry || gather_saves; }
  std::int64_t rows() const { return streams * slots; }
  std::int64_t bank_elements() const { return rows() * head_dim; }
};

/// The operator's inputs except the banks (those may be large and are filled in place, see fill_bank).
/// N = chunks() = steps*streams, time-major: chunk = step*streams + stream. Row-major.
/// Padding tokens of a ragged last chunk hold zeros everywhere.
struct SparseInputs {
  std::vector<std::int32_t> k_idx;  ///< [N, C, W] absolute rows: stream p owns [p*slots, (p+1)*slots)
  std::vector<std::int32_t> q_idx;  ///< [N, C, R]
  std::vector<float> k;             ///< [N, C, W] values already rounded to value_dtype
  std::vector<float> q;             ///< [N, C, R] values already rounded to value_dtype
  std::vector<float> g;             ///< [N, C, 1 or W] <= 0
  std::vector<float> v;             ///< [N, C, D]
  std::vector<float> beta;          ///< [N, C] in [0, 1]
  std::vector<float> d_reading;     ///< [N, C, D]
  std::vector<float> bank;          ///< [P*slots, D] only for captured inputs; empty: fill_bank generates it
  std::vector<float> d_final_bank;  ///< [P*slots, D] only for captured inputs
};

/// Facts about the slots of a workload, for the report.
struct WorkloadFacts {
  std::int64_t write_entries = 0, read_entries = 0;            ///< valid ones
  std::int64_t write_groups = 0, read_groups = 0;              ///< distinct (chunk, slot) pairs
  double write_singleton_share = 0, read_singleton_share = 0;  ///< groups of length one / groups
  std::int64_t longest_write_group = 0, longest_read_group = 0;
  std::int64_t touched_rows = 0;  ///< distinct (chunk, slot) pairs over writes and reads together
  double slot_coverage = 0;       ///< slots written or read at least once / all slots

  friend bool operator==(const WorkloadFacts&, const WorkloadFacts&) = default;
};

class Parallel;

/// What lies outside the limits of spec 2.2: one sentence each with the field, its value and the bound; empty if all is
/// well. A limit that follows from several fields is looked at once these are well themselves.
std::vector<std::string> find_problems(const SparseWorkload& workload);

/// Throws UserError with the sentences of find_problems, if any.
void validate(const SparseWorkload& workload);

/// Draws the inputs with a counter-based generator: the same bits on any machine and any number of threads.
/// For Distribution::Kind::replay it loads and checks the captured file. Throws UserError.
SparseInputs generate_inputs(const SparseWorkload& workload, Parallel& threads);

/// Writes the initial bank, or the initial gradient bank, of elements [first, first + count) as `dtype` values.
enum class BankKind : std::uint8_t { memory, gradient };
void fill_bank(const SparseWorkload& workload, const SparseInputs& inputs, BankKind kind, std::int64_t first,
               std::int64_t count, void* out, Parallel& threads);

WorkloadFacts measure_facts(const SparseWorkload& workload, const SparseInputs& inputs, Parallel& threads);

}  // namespace sdm
