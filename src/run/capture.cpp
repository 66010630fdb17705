#include "run/capture.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "io/safetensors.h"
#include "numerics/formats.h"
#include "run/sparse_session.h"
#include "workload/captured.h"

namespace sdm {
namespace {

const SparseWorkload& sparse_of(const Case& c) {
  const auto* sparse = std::get_if<SparseWorkload>(&c.workload);
  if (!sparse) throw Unsupported(fmt::format("{} is a dense case; only sparse inputs can be stored", c.id));
  return *sparse;
}

std::map<std::string, std::string> metadata_of(const Case& c, const char* format) {
  std::map<std::string, std::string> metadata = c.params;
  const SparseWorkload& w = sparse_of(c);
  metadata["streams"] = std::to_string(w.streams);  // also where the config gives batch and heads
  metadata["case"] = c.id;
  metadata.insert_or_assign(format, std::string(kCapturedVersion));
  return metadata;
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// The strengths in the workload's own dtype; `storage` keeps converted values alive.
TensorToWrite strengths(const char* name, const std::vector<float>& values, DType dtype,
                        std::vector<std::int64_t> shape, std::vector<bf16_t>& storage) {
  if (dtype == DType::f32) return {name, StoredType::f32, std::move(shape), bytes_of(values)};
  storage.resize(values.size());
  std::transform(values.begin(), values.end(), storage.begin(), [](float x) { return to_bf16(x); });
  return {name, StoredType::bf16, std::move(shape), bytes_of(storage)};
}

std::vector<std::byte> bank_bytes(const SparseWorkload& w, const SparseInputs& inputs, BankKind kind,
                                  Parallel& threads) {
  const DType dtype = kind == BankKind::memory ? w.bank_dtype : w.grad_dtype;
  std::vector<std::byte> bytes(static_cast<std::size_t>(w.bank_elements()) * size_of(dtype));
  fill_bank(w, inputs, kind, 0, w.bank_elements(), bytes.data(), threads);
  return bytes;
}

}  // namespace

void write_inputs(const Case& c, const std::string& path, Parallel& threads, bool force) {
  const SparseWorkload& w = sparse_of(c);
  const SparseInputs in = generate_inputs(w, threads);
  const std::int64_t n = w.chunks(), chunk = w.chunk;
  const std::vector<std::int64_t> by_write{n, chunk, w.writes}, by_read{n, chunk, w.reads},
      by_column{n, chunk, w.head_dim};
  std::vector<bf16_t> k, q;
  std::vector<std::int64_t> wide_k, wide_q;
  const auto indices = [&](const char* name, const std::vector<std::int32_t>& values, const auto& shape,
                           std::vector<std::int64_t>& wide) {
    if (w.index_dtype == DType::i32) return TensorToWrite{name, StoredType::i32, shape, bytes_of(values)};
    wide.assign(values.begin(), values.end());
    return TensorToWrite{name, StoredType::i64, shape, bytes_of(wide)};
  };
  std::vector<TensorToWrite> tensors = {
      indices("k_idx", in.k_idx, by_write, wide_k),
      indices("q_idx", in.q_idx, by_read, wide_q),
      strengths("k", in.k, w.value_dtype, by_write, k),
      strengths("q", in.q, w.value_dtype, by_read, q),
      {"g", StoredType::f32, {n, chunk, w.gate == Gate::write ? w.writes : 1}, bytes_of(in.g)},
      {"v", StoredType::f32, by_column, bytes_of(in.v)},
      {"beta", StoredType::f32, {n, chunk}, bytes_of(in.beta)},
      {"d_reading", StoredType::f32, by_column, bytes_of(in.d_reading)}};
  const std::vector<std::byte> bank = bank_bytes(w, in, BankKind::memory, threads);
  tensors.push_back({"bank", stored_type(w.bank_dtype), {w.rows(), w.head_dim}, bank});
  std::vector<std::byte> grad;
  if (w.final_bank_gradient || !in.d_final_bank.empty()) {
    grad = bank_bytes(w, in, BankKind::gradient, threads);
    tensors.push_back({"d_final_bank", stored_type(w.grad_dtype), {w.rows(), w.head_dim}, grad});
  }
  write_safetensors(path, std::move(tensors), metadata_of(c, kCapturedFormat), force);
}

void write_outputs(const Case& c, const std::string& path, Parallel& threads, bool force) {
  const SparseWorkload& w = sparse_of(c);
  const SparseInputs in = generate_inputs(w, threads);
  const std::unique_ptr<Backend> host = make_host_backend();
  SparseSession session(w, in, *host, threads, {});
  session.restore();
  session.run(Pass::forward);
  const std::vector<std::byte> bank_after_forward = session.download(session.buffers().bank);
  session.run(Pass::backward);
  std::vector<TensorToWrite> tensors;
  for (const Tensor* tensor : session.buffers().tensors()) {
    if (tensor->role == Tensor::Role::input || tensor->role == Tensor::Role::scratch) continue;
    tensors.push_back({std::string(tensor->name),
                       stored_type(tensor->dtype),
                       tensor->shape,
                       {tensor->as<const std::byte>(), tensor->bytes()}});
  }
  tensors.push_back({"bank_after_forward", stored_type(w.bank_dtype), {w.rows(), w.head_dim}, bank_after_forward});
  write_safetensors(path, std::move(tensors), metadata_of(c, "sdm_bench_outputs"), force);
}

Case replay_of(Case c, const std::string& path) {
  auto& w = std::get<SparseWorkload>(c.workload);
  w.distribution = {};
  w.distribution.kind = Distribution::Kind::replay;
  w.distribution.file = path;
  return c;
}

std::string file_name_of(const std::string& id) {
  std::string name = id;
  for (char& letter : name) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') ||
                       std::string_view("-_.=+,").find(letter) != std::string_view::npos;
    if (!plain) letter = '_';
  }
  if (!name.empty() && name[0] == '.') name[0] = '_';
  return name;
}

}  // namespace sdm
