#include "run/dense_session.h"

#include <utility>

#include "base/error.h"
#include "numerics/f16.h"
#include "pipeline/pick.h"
#include "run/tensor_io.h"

namespace sdm {
namespace {

/// Rows `first`, `first + stride`, .. of a tensor of rows of `width`, in double.
std::vector<double> download_rows(Backend& backend, const Tensor& tensor, std::int64_t first, std::int64_t stride,
                                  std::int64_t rows, std::int64_t width) {
  if (!tensor.present()) return {};
  const auto row_bytes = static_cast<std::size_t>(width) * size_of(tensor.dtype);
  std::vector<std::byte> row(row_bytes);
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(rows * width));
  const auto append = [&]<typename T>() {
    for (std::int64_t i = 0; i < width; ++i) values.push_back(load_element(reinterpret_cast<const T*>(row.data())[i]));
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    backend.download(
        row.data(), tensor.as<const std::byte>() + static_cast<std::size_t>(first + i * stride) * row_bytes, row_bytes);
    if (tensor.dtype == DType::f32)
      append.template operator()<float>();
    else
      dispatch_half(tensor.dtype, append);
  }
  return values;
}

}  // namespace

DenseSession::DenseSession(const DenseWorkload& workload, const DenseInputs& inputs, Backend& backend,
                           Parallel& threads, const std::map<std::string, std::string>& variants,
                           const Registry& stages)
    : backend_(backend), threads_(threads), context_(backend.launch_context()), buffers_(workload) {
  const Stage<dense_rescan::Params>& stage = stages.dense_rescan;
  pick_ = backend.device() ? pick_variant(stage, variants, buffers_.params(), *backend.device())
                           : StagePick<dense_rescan::Params>{&stage, nullptr};
  arena_ = std::make_unique<Arena>(backend, buffers_.tensors());
  load_inputs(inputs);
}

std::uint64_t DenseSession::bytes_for(const DenseWorkload& workload) {
  DenseBuffers buffers(workload);
  return Arena::bytes_for(buffers.tensors());
}

void DenseSession::load_inputs(const DenseInputs& inputs) {
  const auto upload = [&](const Tensor& tensor, const auto& values) {
    if (!tensor.present()) return;
    SDM_REQUIRE(values.size() * sizeof(values[0]) == tensor.bytes(), "{} has {} values, {} bytes were planned",
                tensor.name, values.size(), tensor.bytes());
    backend_.upload(tensor.data, values.data(), tensor.bytes());
  };
  upload(buffers_.w, inputs.w);
  upload(buffers_.kg, inputs.kg);
  upload(buffers_.u, inputs.u);
  upload(buffers_.d_out, inputs.d_out);
  upload(buffers_.g2, inputs.g2);
  upload(buffers_.h0, inputs.h0);
}

void DenseSession::restore(std::uint8_t poison) {
  for (const Tensor* tensor : std::as_const(buffers_).tensors())
    if (tensor->role == Tensor::Role::output) backend_.fill(tensor->data, poison, tensor->bytes());
  arena_->write_guards();
}

void DenseSession::run(StageObserver* observer) {
  Executor(backend_, threads_, context_, observer).run(pick_, buffers_.params());
}

std::map<std::string, std::string> DenseSession::digests() const {
  backend_.synchronize();
  std::map<std::string, std::string> digests;
  for (const Tensor* tensor : buffers_.tensors())
    if (tensor->role == Tensor::Role::output) digests[std::string(tensor->name)] = digest_of(backend_, *tensor);
  return digests;
}

std::string DenseSession::inputs_digest() const {
  std::string all;
  for (const Tensor* tensor : buffers_.tensors())
    if (tensor->role == Tensor::Role::input) all += digest_of(backend_, *tensor);
  return all;
}

oracle::DenseStates DenseSession::states(std::int64_t stream) const {
  const DenseWorkload& d = buffers_.workload;
  const std::int64_t heads = d.heads, batch = stream / heads, head = stream % heads,
                     state = std::int64_t{d.key_dim} * d.value_dim;
  const std::int64_t first = batch * d.tokens * heads + head;
  return {.checkpoints = download_rows(backend_, buffers_.checkpoints, batch * d.chunks() * heads + head, heads,
                                       d.chunks(), state),
          .v_new = download_rows(backend_, buffers_.v_new, first, heads, d.tokens, d.value_dim),
          .dq = download_rows(backend_, buffers_.dq, first, heads, d.tokens, d.key_dim),
          .final_state = download_rows(backend_, buffers_.final_state, stream, 1, 1, state)};
}

ResolvedVariant DenseSession::resolved() const { return resolved_variant(pick_, buffers_.params(), context_); }

}  // namespace sdm
