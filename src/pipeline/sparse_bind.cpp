#include "pipeline/sparse_bind.h"

namespace sdm::bind {
namespace {

AnyPtr any(const Tensor& tensor) { return {tensor.data, tensor.dtype}; }
float* f32(const Tensor& tensor) { return tensor.as<float>(); }
/// Planes, or the result itself where one plane is the result.
float* planes_or(const Tensor& planes, const Tensor& result) { return f32(planes.present() ? planes : result); }

Groups groups(const SparseBuffers::Side& side) {
  return {side.payload.as<std::uint32_t>(), side.slot.as<std::int32_t>(), side.position.as<std::int32_t>(),
          side.match.as<std::int32_t>(), side.window.as<Window>()};
}

GroupPlaces group_places(const SparseBuffers::Side& side) {
  return {side.position.as<std::int32_t>(), side.payload.as<std::uint32_t>(), side.window.as<Window>()};
}

Snapshot snapshot(const SparseBuffers& s) { return {s.workload.snapshot, s.snapshot.data, f32(s.snapshot_scale)}; }

}  // namespace

group_entries::Params group_entries(const SparseBuffers& s) {
  return {.dims = s.dims,
          .k_idx = any(s.k_idx),
          .q_idx = any(s.q_idx),
          .writes = groups(s.writes),
          .reads = groups(s.reads),
          .scratch = s.group_scratch.data};
}

decay_sums::Params decay_sums(const SparseBuffers& s) {
  return {.dims = s.dims,
          .gate = s.workload.gate,
          .g = f32(s.g),
          .k = any(s.k),
          .q = any(s.q),
          .beta = f32(s.beta),
          .writes = groups(s.writes),
          .reads = groups(s.reads),
          .log_k = f32(s.log_k),
          .rex = f32(s.rex),
          .log_q = f32(s.log_q),
          .k_weight = any(s.k_weight),
          .q_weight = any(s.q_weight),
          .write_weight = f32(s.write_weight),
          .write_record = s.write_record.as<Record>(),
          .read_record = s.read_record.as<Record>(),
          .undo_record = s.undo_record.as<Record>()};
}

interactions::Params interactions(const SparseBuffers& s) {
  return {.dims = s.dims,
          .gate = s.workload.gate,
          .g = f32(s.g),
          .k = any(s.k),
          .q = any(s.q),
          .log_k = f32(s.log_k),
          .log_q = f32(s.log_q),
          .writes = groups(s.writes),
          .reads = groups(s.reads),
          .a = f32(s.a),
          .qk = f32(s.qk)};
}

solve::Params solve(const SparseBuffers& s) {
  return {.dims = s.dims, .a = f32(s.a), .beta = f32(s.beta), .s = f32(s.s)};
}

combine::Params combine(const SparseBuffers& s) {
  return {.dims = s.dims,
          .s = f32(s.s),
          .qk = f32(s.qk),
          .beta = f32(s.beta),
          .v = f32(s.v),
          .b = f32(s.b),
          .qb = f32(s.qb),
          .base_dv = f32(s.base_dv),
          .base_out = f32(s.base_out)};
}

gather::Params gather(const SparseBuffers& s) {
  return {.dims = s.dims,
          .groups = s.gather_groups,
          .bank = any(s.bank),
          .k_idx = any(s.k_idx),
          .q_idx = any(s.q_idx),
          .k_weight = any(s.k_weight),
          .q_weight = any(s.q_weight),
          .retrieved = f32(s.retrieved),
          .inter = f32(s.inter),
          .stash = s.workload.saved_by_gather() ? snapshot(s) : Snapshot{},
          .place = group_places(s.writes),
          .write_quantizes = is_quantized(s.workload.snapshot)};
}

mix::Params mix(const SparseBuffers& s) {
  return {.dims = s.dims,
          .b = f32(s.b),
          .qb = f32(s.qb),
          .base_dv = f32(s.base_dv),
          .base_out = f32(s.base_out),
          .retrieved = f32(s.retrieved),
          .inter = f32(s.inter),
          .delta_v = f32(s.delta_v),
          .reading = f32(s.reading)};
}

write::Params write(const SparseBuffers& s) {
  return {.dims = s.dims,
          .bank = any(s.bank),
          .delta_v = f32(s.delta_v),
          .record = s.write_record.as<Record>(),
          .window = s.writes.window.as<Window>(),
          .position = s.writes.position.as<std::int32_t>(),
          .payload = s.writes.payload.as<std::uint32_t>(),
          .snapshot = s.workload.saved_by_gather() ? Snapshot{} : snapshot(s)};
}

combine_grad::Params combine_grad(const SparseBuffers& s) {
  return {.dims = s.dims,
          .s = f32(s.s),
          .qk = f32(s.qk),
          .d_reading = f32(s.d_reading),
          .u = f32(s.u),
          .base_dva = f32(s.base_dva)};
}

gather_grad::Params gather_grad(const SparseBuffers& s) {
  return {.dims = s.dims,
          .groups = s.gather_grad_groups,
          .grad = any(s.grad),
          .k_idx = any(s.k_idx),
          .write_weight = f32(s.write_weight),
          .delta_v = f32(s.delta_v),
          .d_dv_w = f32(s.d_dv_w),
          .d_ww_planes = planes_or(s.d_ww_planes, s.d_ww),
          .copies = s.gradient_rows.present(),
          .gradient_rows = s.gradient_rows.data,
          .place = group_places(s.writes)};
}

mix_grad::Params mix_grad(const SparseBuffers& s) {
  return {.dims = s.dims, .s = f32(s.s), .base_dva = f32(s.base_dva), .d_dv_w = f32(s.d_dv_w), .d_dva = f32(s.d_dva)};
}

undo::Params undo(const SparseBuffers& s) {
  return {.dims = s.dims,
          .grad = any(s.grad),
          .bank = any(s.bank),
          .snapshot = snapshot(s),
          .reads_copy = s.gradient_rows.present(),
          .gradient_rows = s.gradient_rows.data,
          .d_dva = f32(s.d_dva),
          .beta = f32(s.beta),
          .record = s.undo_record.as<Record>(),
          .window = s.writes.window.as<Window>(),
          .d_kw_planes = planes_or(s.d_kw_planes, s.d_kw),
          .d_decay_planes = planes_or(s.d_decay_planes, s.d_decay)};
}

read_grad::Params read_grad(const SparseBuffers& s) {
  return {.dims = s.dims,
          .bank = any(s.bank),
          .grad = any(s.grad),
          .q_idx = any(s.q_idx),
          .d_reading = f32(s.d_reading),
          .record = s.read_record.as<Record>(),
          .window = s.reads.window.as<Window>(),
          .d_qw_planes = planes_or(s.d_qw_planes, s.d_qw)};
}

reduce::Params reduce(const SparseBuffers& s) {
  const auto job = [](const Tensor& planes, const Tensor& sum, std::int32_t entries, reduce::Factor factor) {
    const std::int32_t count = planes.present() ? static_cast<std::int32_t>(planes.shape[0]) : 1;
    return reduce::Job{planes_or(planes, sum), f32(sum), count, entries, factor};
  };
  return {.dims = s.dims,
          .jobs = {job(s.d_kw_planes, s.d_kw, s.dims.writes, reduce::Factor::minus_beta),
                   job(s.d_decay_planes, s.d_decay, s.dims.writes, reduce::Factor::record_c),
                   job(s.d_ww_planes, s.d_ww, s.dims.writes, reduce::Factor::none),
                   job(s.d_qw_planes, s.d_qw, s.dims.reads, reduce::Factor::none)},
          .beta = f32(s.beta),
          .undo_record = s.undo_record.as<Record>(),
          .position = s.writes.position.as<std::int32_t>()};
}

parameter_gradients::Params parameter_gradients(const SparseBuffers& s) {
  return {.dims = s.dims,
          .gate = s.workload.gate,
          .k = any(s.k),
          .q = any(s.q),
          .v = f32(s.v),
          .beta = f32(s.beta),
          .d_reading = f32(s.d_reading),
          .retrieved = f32(s.retrieved),
          .delta_v = f32(s.delta_v),
          .d_dva = f32(s.d_dva),
          .a = f32(s.a),
          .log_k = f32(s.log_k),
          .rex = f32(s.rex),
          .log_q = f32(s.log_q),
          .d_kw = f32(s.d_kw),
          .d_ww = f32(s.d_ww),
          .d_decay = f32(s.d_decay),
          .d_qw = f32(s.d_qw),
          .writes = groups(s.writes),
          .reads = groups(s.reads),
          .dm = f32(s.dm),
          .dqk = f32(s.dqk),
          .d_log_k = f32(s.d_log_k),
          .d_rex = f32(s.d_rex),
          .d_log_q = f32(s.d_log_q),
          .d_k = f32(s.d_k),
          .d_q = f32(s.d_q),
          .d_v = f32(s.d_v),
          .d_beta = f32(s.d_beta),
          .d_g = f32(s.d_g),
          .d_gate = f32(s.d_gate.present() ? s.d_gate : s.d_g)};
}

}  // namespace sdm::bind
