#include "config/fields.h"

#include <limits>
#include <utility>

#include "config/field_makers.h"

namespace sdm::config {
namespace {

constexpr std::uint64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::uint64_t kMaxTokens = std::uint64_t{1} << 30;  ///< tokens + chunk must stay an int32

void add_sparse_shape(std::vector<Field>& out) {
  constexpr Scope kScope = Scope::sparse;
  out.push_back(integer(
      "workload.streams", kScope, 1, kMaxInt32, [](auto& d) -> auto& { return d.sparse.streams; },
      "P, the number of (sequence, head) pairs; batch and heads may be given instead"));
  out.push_back(integer(
      "workload.batch", kScope, 1, kMaxInt32, [](auto& d) -> auto& { return d.batch; },
      "sequences; with heads, in place of streams = batch * heads"));
  out.push_back(integer(
      "workload.heads", kScope, 1, kMaxInt32, [](auto& d) -> auto& { return d.heads; },
      "heads of a sequence; with batch, in place of streams"));
  out.push_back(integer(
      "workload.tokens", kScope, 1, kMaxTokens, [](auto& d) -> auto& { return d.sparse.tokens; },
      "T, tokens of a stream; the last chunk may be ragged"));
  out.push_back(integer(
      "workload.chunk", kScope, 2, 256, [](auto& d) -> auto& { return d.sparse.chunk; }, "C, tokens of a chunk"));
  out.push_back(integer(
      "workload.writes", kScope, 1, 256, [](auto& d) -> auto& { return d.sparse.writes; },
      "W, write entries of a token; at most slots"));
  out.push_back(integer(
      "workload.reads", kScope, 1, 256, [](auto& d) -> auto& { return d.sparse.reads; },
      "R, read entries of a token; at most slots"));
  out.push_back(integer(
      "workload.head_dim", kScope, 1, 1u << 20, [](auto& d) -> auto& { return d.sparse.head_dim; },
      "D, numbers of a bank row"));
  out.push_back(integer(
      "workload.slots", kScope, 1, kMaxInt32, [](auto& d) -> auto& { return d.sparse.slots; },
      "bank rows of a stream; streams * slots < 2^31"));
}

void add_sparse_formats(std::vector<Field>& out) {
  constexpr Scope kScope = Scope::sparse;
  const Meanings<DType> floats = {{{"f32", {}}, DType::f32}, {{"bf16", {}}, DType::bf16}};
  out.push_back(choice(
      "workload.bank_dtype", kScope, floats, [](auto& d) -> auto& { return d.sparse.bank_dtype; }, "type of the bank"));
  out.push_back(choice(
      "workload.value_dtype", kScope, floats, [](auto& d) -> auto& { return d.sparse.value_dtype; },
      "type of the strengths k and q"));
  out.push_back(choice(
      "workload.grad_dtype", kScope,
      Meanings<GradientChoice>{{{"bank", {}}, GradientChoice::bank},
                               {{"f32", {}}, GradientChoice::f32},
                               {{"bf16", {}}, GradientChoice::bf16}},
      [](auto& d) -> auto& { return d.gradient; },
      "type of the gradient bank; bank: the bank's own; bf16 only with a bf16 bank"));
  out.push_back(choice(
      "workload.weight_dtype", kScope, floats, [](auto& d) -> auto& { return d.sparse.weight_dtype; },
      "type of the stored gather weights k*exp(log_k) and q*exp(log_q)"));
  out.push_back(choice(
      "workload.index_dtype", kScope, Meanings<DType>{{{"i32", {}}, DType::i32}, {{"i64", {}}, DType::i64}},
      [](auto& d) -> auto& { return d.sparse.index_dtype; }, "type of k_idx and q_idx"));
  out.push_back(choice(
      "workload.gate", kScope, Meanings<Gate>{{{"token", {}}, Gate::token}, {{"write", {}}, Gate::write}},
      [](auto& d) -> auto& { return d.sparse.gate; }, "one log-decay a token, or one a write entry"));
  out.push_back(choice(
      "workload.snapshot", kScope,
      Meanings<SnapshotFormat>{{{"per_entry", {"per-entry"}}, SnapshotFormat::per_entry},
                               {{"raw", {}}, SnapshotFormat::raw},
                               {{"bf16", {}}, SnapshotFormat::bf16},
                               {{"fp8", {}}, SnapshotFormat::fp8},
                               {{"int4", {}}, SnapshotFormat::int4},
                               {{"none", {}}, SnapshotFormat::none}},
      [](auto& d) -> auto& { return d.sparse.snapshot; },
      "how pre-write rows are kept for the backward; bf16 only with an f32 bank; none: forward only"));
  out.push_back(boolean(
      "workload.gather_saves", kScope, [](auto& d) -> auto& { return d.sparse.gather_saves; },
      "gather keeps the raw snapshot as it reads the rows, instead of write; only with snapshot raw"));
  out.push_back(boolean(
      "workload.gradient_copy", kScope, [](auto& d) -> auto& { return d.sparse.gradient_copy; },
      "gather_grad keeps a copy of the gradient rows of the writes in group order, and undo reads that"));
  out.push_back(boolean(
      "workload.final_bank_gradient", kScope, [](auto& d) -> auto& { return d.sparse.final_bank_gradient; },
      "the backward starts from a random d_final_bank instead of zero"));
}

void add_sparse_distribution(std::vector<Field>& out) {
  using Kind = Distribution::Kind;
  constexpr double kMaxZipf = 64;  // steeper than this every draw is the first slot
  out.push_back(choice(
      "workload.distribution.kind", Scope::sparse,
      Meanings<Kind>{{{"uniform", {}}, Kind::uniform},
                     {{"zipf", {}}, Kind::zipf},
                     {{"hot", {}}, Kind::hot},
                     {{"sequential", {}}, Kind::sequential},
                     {{"product_key", {"product-key"}}, Kind::product_key},
                     {{"replay", {}}, Kind::replay}},
      [](auto& d) -> auto& { return d.sparse.distribution.kind; }, "where slots come from"));
  out.push_back(beside("zipf", real(
                                   "workload.distribution.s", 0, kMaxZipf, true,
                                   [](auto& d) -> auto& { return d.sparse.distribution.zipf_s; }, "exponent of zipf")));
  out.push_back(beside("hot", integer(
                                  "workload.distribution.slots", Scope::sparse, 1, kMaxInt32,
                                  [](auto& d) -> auto& { return d.sparse.distribution.hot_slots; },
                                  "every entry falls on that many slots; at least max(writes, reads), at most slots")));
  out.push_back(
      beside("replay", text(
                           "workload.distribution.file", [](auto& d) -> auto& { return d.sparse.distribution.file; },
                           "a safetensors file with the operator's inputs, relative to the working directory")));
  out.push_back(choice(
      "workload.values", Scope::sparse,
      Meanings<Values>{{{"ordinary", {}}, Values::ordinary},
                       {{"tiny", {}}, Values::tiny},
                       {{"infinite", {}}, Values::infinite},
                       {{"nan", {}}, Values::nan}},
      [](auto& d) -> auto& { return d.sparse.values; },
      "what the inputs hold beside ordinary numbers: nothing, subnormals and signed zeros, also infinities, also NaN"));
  out.push_back(integer(
      "workload.seed", Scope::sparse, 0, std::numeric_limits<std::uint64_t>::max(),
      [](auto& d) -> auto& { return d.sparse.seed; }, "every random number follows from it"));
}

void add_dense(std::vector<Field>& out) {
  constexpr Scope kScope = Scope::dense;
  constexpr std::uint64_t kMaxExtent = 1u << 20;
  out.push_back(integer(
      "workload.batch", kScope, 1, kMaxExtent, [](auto& d) -> auto& { return d.dense.batch; }, "B, sequences"));
  out.push_back(in_multiples_of(64, integer(
                                        "workload.tokens", kScope, 64, kMaxTokens,
                                        [](auto& d) -> auto& { return d.dense.tokens; }, "T, tokens of a sequence")));
  out.push_back(integer(
      "workload.heads", kScope, 1, kMaxExtent, [](auto& d) -> auto& { return d.dense.heads; }, "HV, value heads"));
  out.push_back(in_multiples_of(64, integer(
                                        "workload.key_dim", kScope, 64, 128,
                                        [](auto& d) -> auto& { return d.dense.key_dim; }, "K, rows of a state")));
  out.push_back(in_multiples_of(64, integer(
                                        "workload.value_dim", kScope, 64, kMaxExtent,
                                        [](auto& d) -> auto& { return d.dense.value_dim; }, "V, columns of a state")));
  out.push_back(choice(
      "workload.io_dtype", kScope, Meanings<DType>{{{"bf16", {}}, DType::bf16}, {{"f16", {"fp16"}}, DType::f16}},
      [](auto& d) -> auto& { return d.dense.io_dtype; }, "type of w, kg, u, do and of the outputs"));
  out.push_back(boolean(
      "workload.initial_state", kScope, [](auto& d) -> auto& { return d.dense.initial_state; },
      "start from a random h0 instead of zero"));
  out.push_back(choice(
      "workload.dq", kScope,
      Meanings<DqMode>{
          {{"off", {}}, DqMode::off}, {{"atomic", {}}, DqMode::atomic}, {{"ordered", {}}, DqMode::ordered}},
      [](auto& d) -> auto& { return d.dense.dq; },
      "the optional output dq: none, summed over V tiles by atomics, or in tile order"));
  out.push_back(integer(
      "workload.seed", kScope, 0, std::numeric_limits<std::uint64_t>::max(),
      [](auto& d) -> auto& { return d.dense.seed; }, "every random number follows from it"));
}

void add_launch(std::vector<Field>& out) {
  for (const std::string& key : variant_keys()) {
    out.push_back(variant(
        key, key == "*" ? "variant of every stage that is not named" : "variant of the stage; without it: that of *"));
  }
  out.push_back(choice(
      "launch", Scope::common,
      Meanings<LaunchMode>{{{"auto", {}}, LaunchMode::automatic},
                           {{"eager", {}}, LaunchMode::eager},
                           {{"plan", {}}, LaunchMode::plan},
                           {{"pdl", {}}, LaunchMode::pdl},
                           {{"graph", {}}, LaunchMode::graph},
                           {{"fused", {}}, LaunchMode::fused}},
      [](auto& d) -> auto& { return d.launch; }, "how a pass is launched; bits never change"));
}

void add_timing(std::vector<Field>& out) {
  constexpr double kDay = 86400;
  out.push_back(integer(
      "timing.min_samples", Scope::common, 1, 1'000'000, [](auto& d) -> auto& { return d.timing.min_samples; },
      "samples at least"));
  out.push_back(integer(
      "timing.warmup", Scope::common, 0, 1'000'000, [](auto& d) -> auto& { return d.timing.warmup; },
      "passes before the first sample"));
  out.push_back(real(
      "timing.max_seconds", 0, kDay, true, [](auto& d) -> auto& { return d.timing.max_seconds; },
      "time limit of a measurement"));
  out.push_back(real(
      "timing.rel_iqr", 0, 1, true, [](auto& d) -> auto& { return d.timing.rel_iqr; },
      "stop when the interquartile range is below this share of the median"));
  out.push_back(choice(
      "timing.l2", Scope::common,
      Meanings<TimingSpec::L2>{{{"cold", {}}, TimingSpec::L2::cold},
                               {{"hot", {}}, TimingSpec::L2::hot},
                               {{"both", {}}, TimingSpec::L2::both}},
      [](auto& d) -> auto& { return d.timing.l2; }, "L2 flushed before every sample, kept, or one after the other"));
  out.push_back(boolean(
      "timing.per_stage", Scope::common, [](auto& d) -> auto& { return d.timing.per_stage; },
      "time every stage too, in passes of its own; on a GPU also prepare, all that the forward does before its steps"));
  out.push_back(real(
      "timing.clock_threshold", 0, 1, false, [](auto& d) -> auto& { return d.timing.clock_threshold; },
      "samples below this share of the boost clock are marked"));
  out.push_back(real(
      "timing.case_timeout_seconds", 0, kDay * 365, false,
      [](auto& d) -> auto& { return d.timing.case_timeout_seconds; }, "give up on a case after that long; 0: never"));
}

std::vector<Field> make_fields() {
  std::vector<Field> out;
  out.push_back(choice(
      "workload.kind", Scope::common,
      Meanings<WorkloadKind>{{{"sparse", {}}, WorkloadKind::sparse}, {{"dense", {}}, WorkloadKind::dense}},
      [](auto& d) -> auto& { return d.kind; }, "which workload; decides the other keys; required"));
  add_sparse_shape(out);
  add_sparse_formats(out);
  add_sparse_distribution(out);
  add_dense(out);
  add_launch(out);
  add_timing(out);
  return out;
}

}  // namespace

const std::vector<Field>& fields() {
  static const std::vector<Field> table = make_fields();
  return table;
}

const std::vector<std::string>& variant_keys() {
  static const std::vector<std::string> keys = {
      "*",      "group_entries", "decay_sums", "interactions",        "solve",       "combine",
      "gather", "mix",           "write",      "combine_grad",        "gather_grad", "mix_grad",
      "undo",   "read_grad",     "reduce",     "parameter_gradients", "dense_rescan"};
  return keys;
}

}  // namespace sdm::config
