#include "pipeline/dense_buffers.h"

namespace sdm {
namespace {

constexpr std::string_view kStage = "dense_rescan";

Tensor dense_input(std::string_view name, DType dtype, std::vector<std::int64_t> shape) {
  return {.name = name, .role = Tensor::Role::input, .dtype = dtype, .shape = std::move(shape)};
}
Tensor output(std::string_view name, DType dtype, std::vector<std::int64_t> shape) {
  return {.name = name, .stage = kStage, .role = Tensor::Role::output, .dtype = dtype, .shape = std::move(shape)};
}

}  // namespace

DenseBuffers::DenseBuffers(const DenseWorkload& d) : workload(d) {
  const std::vector<std::int64_t> keys = {d.batch, d.tokens, d.heads, d.key_dim},
                                  values = {d.batch, d.tokens, d.heads, d.value_dim};
  const std::vector<std::int64_t> state = {d.batch, d.heads, d.key_dim, d.value_dim};
  const bool has_dq = d.dq != DqMode::off;
  w = dense_input("w", d.io_dtype, keys);
  kg = dense_input("kg", d.io_dtype, keys);
  u = dense_input("u", d.io_dtype, values);
  if (has_dq) d_out = dense_input("do", d.io_dtype, values);
  g2 = dense_input("g2", DType::f32, keys);
  if (d.initial_state) h0 = dense_input("h0", DType::f32, state);
  checkpoints = output("checkpoints", d.io_dtype, {d.batch, d.chunks(), d.heads, d.key_dim, d.value_dim});
  v_new = output("v_new", d.io_dtype, values);
  if (has_dq) dq = output("dq", DType::f32, keys);
  final_state = output("final_state", DType::f32, state);
}

std::vector<Tensor*> DenseBuffers::tensors() {
  std::vector<Tensor*> present;
  for (Tensor* tensor : {&w, &kg, &u, &d_out, &g2, &h0, &checkpoints, &v_new, &dq, &final_state})
    if (tensor->present()) present.push_back(tensor);
  return present;
}

std::vector<const Tensor*> DenseBuffers::tensors() const {
  const std::vector<Tensor*> present = const_cast<DenseBuffers*>(this)->tensors();
  return {present.begin(), present.end()};
}

dense_rescan::Params DenseBuffers::params() const {
  return {.batch = workload.batch,
          .chunks = workload.chunks(),
          .heads = workload.heads,
          .key_dim = workload.key_dim,
          .value_dim = workload.value_dim,
          .io = workload.io_dtype,
          .dq_mode = workload.dq,
          .w = w.data,
          .kg = kg.data,
          .u = u.data,
          .d_out = d_out.data,
          .g2 = g2.as<const float>(),
          .h0 = h0.as<const float>(),
          .checkpoints = checkpoints.data,
          .v_new = v_new.data,
          .dq = dq.as<float>(),
          .final_state = final_state.as<float>()};
}

StageCost dense_cost(const DenseBuffers& b) {
  StageCost cost;
  for (const Tensor* tensor : b.tensors())
    cost.bytes += static_cast<double>(tensor->bytes()) / (tensor == &b.g2 ? DenseWorkload::kChunk : 1);
  const double product = 2.0 * static_cast<double>(b.workload.rows()) * b.workload.key_dim * b.workload.value_dim;
  cost.flops = product * (b.dq.present() ? 3 : 2);
  return cost;
}

}  // namespace sdm
