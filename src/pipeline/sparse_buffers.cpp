#include "pipeline/sparse_buffers.h"

#include "kernels/gather/gather.h"
#include "kernels/group_entries/group_entries.h"
#include "numerics/order.h"

namespace sdm {
namespace {

using Role = Tensor::Role;
using Shape = std::vector<std::int64_t>;

Dims dims_of(const SparseWorkload& w) {
  return {.streams = w.streams,
          .steps = w.steps(),
          .tokens = w.tokens,
          .chunk = w.chunk,
          .writes = w.writes,
          .reads = w.reads,
          .head_dim = w.head_dim,
          .slots = w.slots};
}

Tensor input(std::string_view name, DType dtype, Shape shape) {
  return {name, "", Role::input, dtype, std::move(shape), 0};
}
Tensor made_by(std::string_view stage, std::string_view name, Shape shape, DType dtype = DType::f32) {
  return {name, stage, Role::output, dtype, std::move(shape), 0};
}
/// Lower triangular: what lies above the diagonals is no stage's to write.
Tensor lower_by(std::string_view stage, std::string_view name, Shape shape) {
  return {name, stage, Role::lower, DType::f32, std::move(shape), 0};
}
/// Planes of a dot; absent where one plane is already the result.
Tensor planes(std::string_view stage, std::string_view name, std::int64_t count, const Shape& one) {
  if (count == 1) return {name, stage, Role::output, DType::f32, {}, 1};
  return {name, stage, Role::output, DType::f32, {count, one[0], one[1], one[2]}, 1};
}

void add_groups(SparseBuffers& s, std::int64_t n_chunks) {
  const auto side = [&](SparseBuffers::Side& out, const char* const(&names)[5], std::int64_t n) {
    out.payload = made_by("group_entries", names[0], {n_chunks, n}, DType::u32);
    out.slot = made_by("group_entries", names[1], {n_chunks, n}, DType::i32);
    out.position = made_by("group_entries", names[2], {n_chunks, n}, DType::i32);
    out.match = made_by("group_entries", names[3], {n_chunks, n}, DType::i32);
    out.window = made_by("group_entries", names[4], {n_chunks, window_count(static_cast<int>(n)), 2}, DType::i32);
  };
  side(s.writes, {"write_payload", "write_slot", "write_position", "write_match", "write_window"},
       s.dims.write_positions());
  side(s.reads, {"read_payload", "read_slot", "read_position", "read_match", "read_window"}, s.dims.read_positions());
}

void add_snapshot(SparseBuffers& s, std::int64_t n_chunks) {
  const SparseWorkload& w = s.workload;
  if (w.snapshot == SnapshotFormat::none) return;
  const std::int64_t rows = n_chunks * s.dims.write_positions();
  const bool quantized = is_quantized(w.snapshot);
  const DType dtype = quantized ? DType::u8 : w.snapshot == SnapshotFormat::bf16 ? DType::bf16 : w.bank_dtype;
  const std::int64_t columns =
      snapshot_row_bytes(w.snapshot, w.head_dim, w.bank_dtype) / static_cast<std::int64_t>(size_of(dtype));
  const std::string_view stage = w.saved_by_gather() ? "gather" : "write";
  s.snapshot = {"snapshot", stage, Role::sparse, dtype, {n_chunks, rows / n_chunks, columns}, 0};
  if (quantized) s.snapshot_scale = {"snapshot_scale", stage, Role::sparse, DType::f32, {n_chunks, rows / n_chunks}, 0};
}

/// What the backward alone reads and makes.
void add_backward(SparseBuffers& s) {
  const SparseWorkload& w = s.workload;
  const std::int64_t n = s.dims.chunks(), c = w.chunk, slices = slice_count(w.head_dim);
  const Shape by_write{n, c, w.writes}, by_read{n, c, w.reads}, by_column{n, c, w.head_dim}, square{n, c, c};
  s.d_reading = input("d_reading", DType::f32, by_column);
  s.grad.shape = {w.rows(), w.head_dim};
  s.u = made_by("combine_grad", "u", by_column);
  s.base_dva = made_by("combine_grad", "base_dva", by_column);
  s.d_dv_w = made_by("gather_grad", "d_dv_w", by_column);
  if (w.gradient_copy)
    s.gradient_rows = {
        "gradient_rows", "gather_grad", Role::sparse, w.grad_dtype, {n, s.dims.write_positions(), w.head_dim}, 0};
  s.d_dva = made_by("mix_grad", "d_dva", by_column);
  s.d_ww_planes = planes("gather_grad", "d_ww_planes", s.dot_shape.planes, by_write);
  s.d_kw_planes = planes("undo", "d_kw_planes", slices, by_write);
  s.d_decay_planes = planes("undo", "d_decay_planes", slices, by_write);
  s.d_qw_planes = planes("read_grad", "d_qw_planes", slices, by_read);
  s.d_ww = made_by(s.dot_shape.planes > 1 ? "reduce" : "gather_grad", "d_ww", by_write);
  s.d_kw = made_by(slices > 1 ? "reduce" : "undo", "d_kw", by_write);
  s.d_decay = made_by(slices > 1 ? "reduce" : "undo", "d_decay", by_write);
  s.d_qw = made_by(slices > 1 ? "reduce" : "read_grad", "d_qw", by_read);
  s.dm = lower_by("parameter_gradients", "dm", square);
  s.dqk = lower_by("parameter_gradients", "dqk", square);
  s.d_log_k = made_by("parameter_gradients", "d_log_k", by_write);
  s.d_rex = made_by("parameter_gradients", "d_rex", by_write);
  s.d_log_q = made_by("parameter_gradients", "d_log_q", by_read);
  s.d_gate = made_by("parameter_gradients", "d_gate", w.gate == Gate::token ? by_write : Shape{});
  s.d_k = made_by("parameter_gradients", "d_k", by_write);
  s.d_q = made_by("parameter_gradients", "d_q", by_read);
  s.d_v = made_by("parameter_gradients", "d_v", by_column);
  s.d_beta = made_by("parameter_gradients", "d_beta", Shape{n, c});
  s.d_g = made_by("parameter_gradients", "d_g", s.g.shape);
}

}  // namespace

SparseBuffers::SparseBuffers(const SparseWorkload& w) : workload(w), dims(dims_of(w)) {
  gather_groups = gather::groups_for(dims, w.bank_dtype);
  gather_grad_groups = gather_grad::groups_for(dims, w.grad_dtype);
  dot_shape = gather_grad::dot_shape(w.head_dim, w.grad_dtype);

  const std::int64_t n = dims.chunks(), c = w.chunk, d = w.head_dim;
  const Shape by_write{n, c, w.writes}, by_read{n, c, w.reads}, by_token{n, c}, by_column{n, c, d}, square{n, c, c};
  const Shape by_gate{n, c, w.gate == Gate::write ? w.writes : 1};

  k_idx = input("k_idx", w.index_dtype, by_write);
  q_idx = input("q_idx", w.index_dtype, by_read);
  k = input("k", w.value_dtype, by_write);
  q = input("q", w.value_dtype, by_read);
  g = input("g", DType::f32, by_gate);
  v = input("v", DType::f32, by_column);
  beta = input("beta", DType::f32, by_token);
  bank = {"bank", "", Role::state, w.bank_dtype, {w.rows(), d}};
  grad = {"grad", "", Role::state, w.grad_dtype, {}};

  add_groups(*this, n);
  log_k = made_by("decay_sums", "log_k", by_write);
  rex = made_by("decay_sums", "rex", by_write);
  log_q = made_by("decay_sums", "log_q", by_read);
  k_weight = made_by("decay_sums", "k_weight", by_write, w.weight_dtype);
  q_weight = made_by("decay_sums", "q_weight", by_read, w.weight_dtype);
  write_weight = made_by("decay_sums", "write_weight", by_write);
  write_record = made_by("decay_sums", "write_record", {n, dims.write_positions(), 4}, DType::u32);
  read_record = made_by("decay_sums", "read_record", {n, dims.read_positions(), 4}, DType::u32);
  undo_record = made_by("decay_sums", "undo_record", {n, dims.write_positions(), 4}, DType::u32);
  a = lower_by("interactions", "a", square);
  qk = lower_by("interactions", "qk", square);
  s = lower_by("solve", "s", square);
  b = lower_by("combine", "b", square);
  qb = lower_by("combine", "qb", square);
  base_dv = made_by("combine", "base_dv", by_column);
  base_out = made_by("combine", "base_out", by_column);
  retrieved = made_by("gather", "retrieved", by_column);
  inter = made_by("gather", "inter", by_column);
  delta_v = made_by("mix", "delta_v", by_column);
  reading = made_by("mix", "reading", by_column);
  add_snapshot(*this, n);
  if (w.snapshot != SnapshotFormat::none) add_backward(*this);
}

std::vector<Tensor*> SparseBuffers::tensors() {
  std::vector<Tensor*> all{&k_idx,
                           &q_idx,
                           &k,
                           &q,
                           &g,
                           &v,
                           &beta,
                           &d_reading,
                           &bank,
                           &grad,
                           &writes.payload,
                           &writes.slot,
                           &writes.position,
                           &writes.match,
                           &writes.window,
                           &reads.payload,
                           &reads.slot,
                           &reads.position,
                           &reads.match,
                           &reads.window,
                           &group_scratch,
                           &log_k,
                           &rex,
                           &log_q,
                           &k_weight,
                           &q_weight,
                           &write_weight,
                           &write_record,
                           &read_record,
                           &undo_record,
                           &a,
                           &qk,
                           &s,
                           &b,
                           &qb,
                           &base_dv,
                           &base_out,
                           &retrieved,
                           &inter,
                           &delta_v,
                           &reading,
                           &snapshot,
                           &snapshot_scale,
                           &u,
                           &base_dva,
                           &d_ww_planes,
                           &d_kw_planes,
                           &d_decay_planes,
                           &d_qw_planes,
                           &d_dv_w,
                           &gradient_rows,
                           &d_dva,
                           &d_ww,
                           &d_kw,
                           &d_decay,
                           &d_qw,
                           &dm,
                           &dqk,
                           &d_log_k,
                           &d_rex,
                           &d_log_q,
                           &d_gate,
                           &d_k,
                           &d_q,
                           &d_v,
                           &d_beta,
                           &d_g};
  std::erase_if(all, [](const Tensor* tensor) { return !tensor->present(); });
  return all;
}

SparseBuffers of_streams(SparseBuffers buffers, int first, int last) {
  if (last - first == buffers.dims.streams) return buffers;
  for (Tensor* tensor : buffers.tensors())
    if (tensor->chunk_axis >= 0)
      tensor->data = tensor->as<std::byte>() + static_cast<std::uint64_t>(first) * chunk_bytes(*tensor);
  buffers.dims.branch = last - first;
  return buffers;
}

std::vector<const Tensor*> SparseBuffers::tensors() const {
  const std::vector<Tensor*> all = const_cast<SparseBuffers*>(this)->tensors();
  return {all.begin(), all.end()};
}

}  // namespace sdm
