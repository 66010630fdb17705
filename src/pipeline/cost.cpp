#include "pipeline/cost.h"

#include <functional>
#include <map>

namespace sdm {
namespace {

/// The sizes that the formulas below are written in, as doubles.
struct Sizes {
  double tokens, chunks, columns,
      lower;             // padded tokens, chunks, bytes of one [N, C, D] array, of the lower triangles of [N, C, C]
  double writes, reads;  // entries
  double write_rows, read_rows, rows;       // unique (chunk, row) pairs: of writes, of reads, of both
  double bank_row, grad_row, snapshot_row;  // bytes
  double index, value, weight;              // bytes of one
  double d, c, planes, dot_planes;

  Sizes(const SparseBuffers& s, const WorkloadFacts& facts) {
    const auto n = static_cast<double>(s.dims.chunks());
    c = s.dims.chunk, d = s.dims.head_dim, chunks = n, tokens = n * c;
    columns = tokens * d * 4, lower = tokens * (c + 1) / 2 * 4;
    writes = static_cast<double>(facts.write_entries), reads = static_cast<double>(facts.read_entries);
    write_rows = static_cast<double>(facts.write_groups), read_rows = static_cast<double>(facts.read_groups);
    rows = static_cast<double>(facts.touched_rows);
    bank_row = d * static_cast<double>(size_of(s.bank.dtype)),
    grad_row = d * static_cast<double>(size_of(s.grad.dtype));
    snapshot_row = static_cast<double>(snapshot_row_bytes(s.workload.snapshot, s.dims.head_dim, s.bank.dtype)) +
                   (s.snapshot_scale.present() ? 4 : 0);
    index = static_cast<double>(size_of(s.k_idx.dtype)), value = static_cast<double>(size_of(s.k.dtype));
    weight = static_cast<double>(size_of(s.k_weight.dtype));
    planes = s.d_kw_planes.present() ? static_cast<double>(s.d_kw_planes.shape[0]) : 1;
    dot_planes = s.dot_shape.planes;
  }
  double triangle_flops() const { return chunks * c * (c + 1) * d; }  // 2 * C(C+1)/2 * D a chunk
};

StageCost gather_cost(const SparseBuffers& s, const Sizes& z) {
  const bool per_entry = s.workload.snapshot == SnapshotFormat::per_entry;
  const double stash = s.workload.saved_by_gather() ? (per_entry ? z.writes : z.write_rows) * z.bank_row : 0;
  return {z.rows * z.bank_row + (z.writes + z.reads) * (z.index + z.weight) + 2 * z.columns + stash,
          2 * (z.writes + z.reads) * z.d};
}

StageCost write_cost(const SparseBuffers& s, const Sizes& z) {
  const double saved =
      s.workload.saved_by_gather() || s.workload.snapshot == SnapshotFormat::none ? 0 : z.write_rows * z.snapshot_row;
  return {2 * z.write_rows * z.bank_row + saved + 16 * z.writes + z.columns, 2 * (z.writes + z.write_rows) * z.d};
}

StageCost gather_grad_cost(const SparseBuffers& s, const Sizes& z) {
  const double copy = s.gradient_rows.present() ? z.write_rows * z.grad_row : 0;
  return {z.write_rows * z.grad_row + copy + z.writes * (z.index + 4 + 4 * z.dot_planes) + 2 * z.columns,
          4 * z.writes * z.d};
}

StageCost undo_cost(const SparseBuffers&, const Sizes& z) {
  const double rows = z.write_rows * (2 * z.grad_row + z.bank_row + z.snapshot_row);
  return {rows + z.writes * (16 + 8 * z.planes) + z.columns, (4 * z.writes + 4 * z.write_rows) * z.d};
}

StageCost read_grad_cost(const SparseBuffers&, const Sizes& z) {
  return {z.read_rows * (2 * z.grad_row + z.bank_row) + z.reads * (16 + z.index + 4 * z.planes) + z.columns,
          4 * z.reads * z.d};
}

StageCost parameter_gradients_cost(const SparseBuffers&, const Sizes& z) {
  return {6 * z.columns + 3 * z.lower + z.writes * (10 * 4 + z.value) + z.reads * (5 * 4 + z.value),
          2 * z.triangle_flops() + 4 * z.tokens * z.d};
}

using Formula = StageCost (*)(const SparseBuffers&, const Sizes&);
const std::map<std::string_view, Formula>& formulas() {
  static const std::map<std::string_view, Formula> table{
      {"group_entries",
       [](const SparseBuffers&, const Sizes& z) {
         return StageCost{(z.writes + z.reads) * (z.index + 16), 0};
       }},
      {"decay_sums",
       [](const SparseBuffers&, const Sizes& z) {
         return StageCost{
             z.writes * (12 + z.value + 4 + 8 + z.weight + 4 + 32) + z.reads * (12 + z.value + 4 + z.weight + 16), 0};
       }},
      {"interactions",
       [](const SparseBuffers&, const Sizes& z) {
         return StageCost{(z.writes + z.reads) * (z.value + 12) + 2 * z.lower, 0};
       }},
      {"solve",
       [](const SparseBuffers&, const Sizes& z) {
         return StageCost{2 * z.lower, z.chunks * z.c * z.c * z.c / 3};
       }},
      {"combine",
       [](const SparseBuffers&, const Sizes& z) {
         return StageCost{4 * z.lower + 3 * z.columns, 2 * z.triangle_flops() + z.chunks * z.c * z.c * z.c / 3};
       }},
      {"gather", gather_cost},
      {"mix",
       [](const SparseBuffers&, const Sizes& z) {
         return StageCost{6 * z.columns + 2 * z.lower, 2 * z.triangle_flops()};
       }},
      {"write", write_cost},
      {"combine_grad",
       [](const SparseBuffers&, const Sizes& z) {
         return StageCost{3 * z.columns + 2 * z.lower, 2 * z.triangle_flops()};
       }},
      {"gather_grad", gather_grad_cost},
      {"mix_grad",
       [](const SparseBuffers&, const Sizes& z) {
         return StageCost{3 * z.columns + z.lower, z.triangle_flops()};
       }},
      {"undo", undo_cost},
      {"read_grad", read_grad_cost},
      {"reduce",
       [](const SparseBuffers&, const Sizes& z) {
         const double kw = z.planes > 1 ? z.planes + 1 : 0, ww = z.dot_planes > 1 ? z.dot_planes + 1 : 0;
         return StageCost{4 * (z.writes * (2 * kw + ww) + z.reads * kw), 0};
       }},
      {"parameter_gradients", parameter_gradients_cost},
  };
  return table;
}

}  // namespace

StageCost stage_cost(std::string_view stage, const SparseBuffers& buffers, const WorkloadFacts& facts) {
  const auto formula = formulas().find(stage);
  return formula == formulas().end() ? StageCost{} : formula->second(buffers, Sizes(buffers, facts));
}

Access stage_access(std::string_view stage) {
  if (stage == "gather" || stage == "gather_grad") return Access::row_read;
  if (stage == "write" || stage == "undo" || stage == "read_grad") return Access::row_read_write;
  return Access::stream;
}

}  // namespace sdm
