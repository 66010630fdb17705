#include "config/rules.h"

#include <algorithm>
#include <limits>

namespace sdm::config {
namespace {

/// Reports combinations at the place of the first of the named paths that was given at all.
class Judge {
 public:
  Judge(const Layer& settings, const Origin& fallback, Problems& problems)
      : settings_(settings), fallback_(fallback), problems_(problems) {}

  /// A path with a bad value was reported already: what follows from its default says nothing.
  void forbid(bool wrong, const std::vector<std::string>& paths, const std::string& message) const {
    if (!wrong) return;
    const Origin* origin = nullptr;
    for (const std::string& path : paths) {
      const auto found = settings_.find(path);
      if (found == settings_.end()) continue;
      if (!found->second.valid) return;
      if (!origin) origin = &found->second.origin;
    }
    Origin at = origin ? *origin : fallback_;
    if (!origin) at.path += (at.path.empty() ? "" : ".") + paths[0];
    problems_.add(at, message);
  }

 private:
  const Layer& settings_;
  const Origin& fallback_;
  Problems& problems_;
};

void resolve_streams(Draft& draft, const Layer& settings, const Judge& judge) {
  const bool split = settings.contains("workload.batch") || settings.contains("workload.heads");
  if (!split) return;
  const std::vector<std::string> paths = {"workload.streams", "workload.batch", "workload.heads"};
  judge.forbid(
      settings.contains("workload.streams"), paths,
      "workload.streams and workload.batch or workload.heads are both given; legal: streams alone, or batch and heads");
  const std::int64_t streams = draft.batch * draft.heads;  // both below 2^31
  const bool many = streams > std::numeric_limits<std::int32_t>::max();
  judge.forbid(many, {"workload.batch", "workload.heads"},
               fmt::format("workload.batch {} * workload.heads {} = {} streams; at most 2147483647", draft.batch,
                           draft.heads, streams));
  if (!many) draft.sparse.streams = static_cast<std::int32_t>(streams);
}

void judge_rows(const SparseWorkload& w, const Judge& judge) {
  judge.forbid(w.writes > w.slots, {"workload.writes", "workload.slots"},
               fmt::format("workload.writes {} is more than workload.slots {}; the slots of a token are distinct",
                           w.writes, w.slots));
  judge.forbid(w.reads > w.slots, {"workload.reads", "workload.slots"},
               fmt::format("workload.reads {} is more than workload.slots {}; the slots of a token are distinct",
                           w.reads, w.slots));
  judge.forbid(
      w.rows() >= std::int64_t{1} << 31, {"workload.slots", "workload.streams", "workload.batch", "workload.heads"},
      fmt::format(
          "{} streams (workload.streams) * {} workload.slots = {} bank rows; legal: fewer than 2^31 = 2147483648",
          w.streams, w.slots, w.rows()));
}

void judge_formats(const Draft& draft, const Judge& judge) {
  const SparseWorkload& w = draft.sparse;
  judge.forbid(
      w.snapshot == SnapshotFormat::bf16 && w.bank_dtype != DType::f32, {"workload.snapshot", "workload.bank_dtype"},
      fmt::format(
          "workload.snapshot bf16 with workload.bank_dtype {}; bf16 snapshots round an f32 bank; legal with {}: "
          "per_entry, raw, fp8, int4",
          name_of(w.bank_dtype), name_of(w.bank_dtype)));
  judge.forbid(w.gather_saves && w.snapshot != SnapshotFormat::raw, {"workload.gather_saves", "workload.snapshot"},
               fmt::format("workload.gather_saves with workload.snapshot {}; gather keeps rows as they are; legal: raw "
                           "(per_entry rows are gather's in any case)",
                           name_of(w.snapshot)));
  judge.forbid(w.gradient_copy && w.snapshot == SnapshotFormat::none, {"workload.gradient_copy", "workload.snapshot"},
               "workload.gradient_copy with workload.snapshot none; without a backward there is no gradient; legal: "
               "per_entry, raw, bf16, fp8, int4");
  judge.forbid(draft.gradient == GradientChoice::bf16 && w.bank_dtype == DType::f32,
               {"workload.grad_dtype", "workload.bank_dtype"},
               "workload.grad_dtype bf16 with workload.bank_dtype f32; legal with an f32 bank: bank, f32");
}

void judge_distribution(const SparseWorkload& w, const Layer& settings, const Judge& judge) {
  const Distribution& d = w.distribution;
  const std::int32_t most = std::max(w.writes, w.reads);
  const std::string wider = w.writes >= w.reads ? "workload.writes" : "workload.reads";
  if (d.kind == Distribution::Kind::hot) {
    judge.forbid(d.hot_slots < most, {"workload.distribution.slots", wider, "workload.distribution.kind"},
                 fmt::format("workload.distribution.slots {} is fewer than {} {}; the slots of a token are distinct",
                             d.hot_slots, wider, most));
    judge.forbid(d.hot_slots > w.slots, {"workload.distribution.slots", "workload.slots", "workload.distribution.kind"},
                 fmt::format("workload.distribution.slots {} is more than workload.slots {}", d.hot_slots, w.slots));
  }
  judge.forbid(d.kind == Distribution::Kind::replay && !settings.contains("workload.distribution.file"),
               {"workload.distribution.kind"},
               "replay needs workload.distribution.file, a safetensors file with the inputs");
  judge.forbid(d.kind == Distribution::Kind::replay && w.values != Values::ordinary,
               {"workload.values", "workload.distribution.kind"},
               "workload.values with distribution replay; stored inputs hold what they hold; legal: ordinary");
}

/// Elements of the largest input: no memory holds more, and 64-bit byte counts of all that follows from it stay exact.
constexpr double kMostElements = 17592186044416.0;  // 2^44, the bound of workload/validate.cpp

void judge_sparse_size(const SparseWorkload& w, const Judge& judge) {
  const double token_rows = static_cast<double>(w.chunks()) * w.chunk;  // padding of a ragged last chunk included
  const double elements = token_rows * std::max({w.writes, w.reads, w.head_dim});
  judge.forbid(elements > kMostElements,
               {"workload.tokens", "workload.streams", "workload.batch", "workload.heads", "workload.head_dim"},
               fmt::format("{} streams * workload.tokens {} * the most of workload.writes {}, workload.reads {} and "
                           "workload.head_dim {} = {:.3g} elements; at most 2^44",
                           w.streams, w.tokens, w.writes, w.reads, w.head_dim, elements));
}

void judge_dense_size(const DenseWorkload& w, const Judge& judge) {
  const double elements = static_cast<double>(w.batch) * w.heads * w.tokens * std::max(w.key_dim, w.value_dim);
  judge.forbid(
      elements > kMostElements, {"workload.tokens", "workload.batch", "workload.heads", "workload.value_dim"},
      fmt::format("workload.batch {} * workload.heads {} * workload.tokens {} * the more of workload.key_dim {} "
                  "and workload.value_dim {} = {:.3g} elements; at most 2^44",
                  w.batch, w.heads, w.tokens, w.key_dim, w.value_dim, elements));
}

}  // namespace

void resolve(Draft& draft, const Layer& settings, const Origin& fallback, Problems& problems) {
  const Judge judge(settings, fallback, problems);
  if (draft.kind == WorkloadKind::dense) return judge_dense_size(draft.dense, judge);
  resolve_streams(draft, settings, judge);
  judge_rows(draft.sparse, judge);
  judge_sparse_size(draft.sparse, judge);
  judge_formats(draft, judge);
  judge_distribution(draft.sparse, settings, judge);
  const bool f32 = draft.gradient == GradientChoice::f32 || draft.sparse.bank_dtype == DType::f32;
  draft.gradient = f32 ? GradientChoice::f32 : GradientChoice::bf16;
  draft.sparse.grad_dtype = f32 ? DType::f32 : DType::bf16;
}

}  // namespace sdm::config
