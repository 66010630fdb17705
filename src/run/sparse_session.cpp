#include "run/sparse_session.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "check/planted_fault.h"
#include "numerics/formats.h"
#include "pipeline/fused.h"
#include "pipeline/sparse_bind.h"
#include "run/tensor_io.h"

namespace sdm {
namespace {

constexpr std::int64_t kPieceElements = std::int64_t{16} << 20;  ///< banks travel in pieces of this many elements
constexpr int kMostPlanParts = 256;  ///< recordings of a pass in mode plan: each takes device memory and time to make

/// Strengths and indices are held widest on the host and stored in the workload's dtype.
template <typename Stored, typename Source, typename Convert>
std::vector<Stored> converted(const std::vector<Source>& source, Convert&& convert) {
  std::vector<Stored> stored(source.size());
  std::transform(source.begin(), source.end(), stored.begin(), convert);
  return stored;
}

/// A tensor's bytes, f32 or bf16, as floats.
std::vector<float> widened(const Tensor& tensor, const std::vector<std::byte>& bytes) {
  std::vector<float> floats(static_cast<std::size_t>(tensor.count()));
  if (tensor.dtype == DType::f32) {
    std::copy_n(reinterpret_cast<const float*>(bytes.data()), floats.size(), floats.begin());
  } else {
    SDM_REQUIRE(tensor.dtype == DType::bf16, "{} is no tensor of floats", tensor.name);
    const auto* stored = reinterpret_cast<const bf16_t*>(bytes.data());
    std::transform(stored, stored + floats.size(), floats.begin(), [](bf16_t x) { return from_bf16(x); });
  }
  return floats;
}

/// Puts a planted fault between a stage and whoever looks at its results.
class Spoiler final : public StageObserver {
 public:
  Spoiler(PlantedFault* fault, SparseSession& session, StageObserver* inner)
      : fault_(fault), session_(session), inner_(inner) {}
  void before(const StageCall& call) override {
    if (inner_) inner_->before(call);
    fault_->before(session_, call);
  }
  void after(const StageCall& call) override {
    fault_->after(session_, call);
    if (inner_) inner_->after(call);
  }

 private:
  PlantedFault* fault_;
  SparseSession& session_;
  StageObserver* inner_;
};

}  // namespace

SparseSession::SparseSession(const SparseWorkload& workload, const SparseInputs& inputs, Backend& backend,
                             Parallel& threads, const std::map<std::string, std::string>& variants,
                             const Registry& stages)
    : inputs_(inputs),
      backend_(backend),
      threads_(threads),
      context_(backend.launch_context()),
      all_automatic_(std::all_of(variants.begin(), variants.end(), [](const auto& v) { return v.second == "auto"; })),
      buffers_(workload),
      plan_(make_plan(variants, buffers_, backend.device(), stages)),
      fault_(stages.fault) {
  if (const auto* variant = plan_.group_entries.variant; variant && variant->scratch_bytes)
    buffers_.group_scratch = {"group_scratch",
                              "group_entries",
                              Tensor::Role::scratch,
                              DType::u8,
                              {variant->scratch_bytes(bind::group_entries(buffers_))}};
  arena_ = std::make_unique<Arena>(backend, buffers_.tensors());
  load_inputs();
}

std::uint64_t SparseSession::bytes_for(const SparseWorkload& workload) {
  SparseBuffers buffers(workload);
  return Arena::bytes_for(buffers.tensors());
}

void SparseSession::load_inputs() {
  const auto upload = [&](const Tensor& tensor, const auto& values) {
    SDM_REQUIRE(values.size() * sizeof(values[0]) == tensor.bytes(), "{} has {} values, {} bytes were planned",
                tensor.name, values.size(), tensor.bytes());
    backend_.upload(tensor.data, values.data(), tensor.bytes());
  };
  const auto upload_index = [&](const Tensor& tensor, const std::vector<std::int32_t>& values) {
    if (tensor.dtype == DType::i32) return upload(tensor, values);
    upload(tensor, converted<std::int64_t>(values, [](std::int32_t i) { return std::int64_t{i}; }));
  };
  const auto upload_value = [&](const Tensor& tensor, const std::vector<float>& values) {
    if (tensor.dtype == DType::f32) return upload(tensor, values);
    upload(tensor, converted<bf16_t>(values, [](float x) { return to_bf16(x); }));
  };
  upload_index(buffers_.k_idx, inputs_.k_idx);
  upload_index(buffers_.q_idx, inputs_.q_idx);
  upload_value(buffers_.k, inputs_.k);
  upload_value(buffers_.q, inputs_.q);
  upload(buffers_.g, inputs_.g);
  upload(buffers_.v, inputs_.v);
  upload(buffers_.beta, inputs_.beta);
  if (has_backward()) upload(buffers_.d_reading, inputs_.d_reading);
}

void SparseSession::initial_bank(BankKind kind, std::int64_t first, std::int64_t count, void* out) const {
  fill_bank(buffers_.workload, inputs_, kind, first, count, out, threads_);
}

SparseSession::~SparseSession() {
  for (const auto& [kind, memory] : pristine_) backend_.release(memory);
  if (counters_) backend_.release(counters_);
}

void SparseSession::load_bank(const Tensor& tensor, BankKind kind) {
  if (kind == BankKind::gradient && !buffers_.workload.final_bank_gradient && inputs_.d_final_bank.empty())
    return backend_.fill(tensor.data, 0, tensor.bytes());
  if (!backend_.device()) return initial_bank(kind, 0, tensor.count(), tensor.data);
  const bool captured = !(kind == BankKind::memory ? inputs_.bank : inputs_.d_final_bank).empty();
  const bool ordinary = buffers_.workload.values == Values::ordinary && !captured;
  if (ordinary && backend_.fill_bank(
                      {tensor.data, tensor.dtype, tensor.count(), buffers_.workload.seed, kind == BankKind::gradient}))
    return;
  if (const auto copy = pristine_.find(kind); copy != pristine_.end())
    return backend_.copy(tensor.data, copy->second, tensor.bytes());
  generate_bank(tensor, kind);
  if (backend_.free_memory() < tensor.bytes() + (std::uint64_t{1} << 30)) return;
  void* memory = pristine_[kind] = backend_.allocate(tensor.bytes());
  backend_.copy(memory, tensor.data, tensor.bytes());
}

void SparseSession::generate_bank(const Tensor& tensor, BankKind kind) {
  std::vector<std::byte> piece(static_cast<std::size_t>(std::min(tensor.count(), kPieceElements)) *
                               size_of(tensor.dtype));
  for (std::int64_t first = 0; first < tensor.count(); first += kPieceElements) {
    const std::int64_t count = std::min(kPieceElements, tensor.count() - first);
    initial_bank(kind, first, count, piece.data());
    backend_.upload(tensor.as<std::byte>() + first * static_cast<std::int64_t>(size_of(tensor.dtype)), piece.data(),
                    static_cast<std::size_t>(count) * size_of(tensor.dtype));
  }
}

void SparseSession::restore_banks() {
  load_bank(buffers_.bank, BankKind::memory);
  if (has_backward()) load_bank(buffers_.grad, BankKind::gradient);
}

void SparseSession::poison_lower(const Tensor& tensor, std::uint8_t poison) {
  constexpr std::int64_t kMostFloats = std::int64_t{1} << 20;  // uploaded at a time
  const std::int64_t c = tensor.shape.back(), blocks = tensor.count() / (c * c);
  const std::int64_t most = std::clamp<std::int64_t>(kMostFloats / (c * c), 1, std::max<std::int64_t>(blocks, 1));
  std::vector<float> piece(static_cast<std::size_t>(most * c * c));
  for (std::int64_t row = 0; row < most * c; ++row)
    std::memset(piece.data() + row * c, poison, static_cast<std::size_t>(row % c + 1) * sizeof(float));
  for (std::int64_t first = 0; first < blocks; first += most)
    backend_.upload(tensor.as<float>() + first * c * c, piece.data(),
                    static_cast<std::size_t>(std::min(most, blocks - first) * c * c) * sizeof(float));
}

void SparseSession::restore(std::uint8_t poison) {
  for (const Tensor* tensor : std::as_const(buffers_).tensors()) {
    if (tensor->role == Tensor::Role::output || tensor->role == Tensor::Role::scratch)
      backend_.fill(tensor->data, poison, tensor->bytes());
    if (tensor->role == Tensor::Role::sparse) backend_.fill(tensor->data, 0, tensor->bytes());
    if (tensor->role == Tensor::Role::lower) poison_lower(*tensor, poison);
  }
  arena_->write_guards();
  restore_banks();
}

void SparseSession::set_launch(LaunchMode mode) {
  const Device* device = backend_.device();
  if (mode == LaunchMode::fused && !device) throw Unsupported("launch mode fused needs a GPU");
  const bool dependent_possible = device && device->compute_capability >= 90 && !device->force_portable;
  if (mode == LaunchMode::pdl && device && !dependent_possible)
    throw Unsupported(fmt::format("launch mode pdl needs compute capability 9.0 or newer, this device has {}.{}",
                                  device->compute_capability / 10, device->compute_capability % 10));
  if (mode == LaunchMode::fused)
    if (const std::string reason = refuse_fused(plan_, buffers_, context_); !reason.empty())
      throw Unsupported(fmt::format("launch mode fused refuses this case: {}", reason));
  launch_ = mode;
  fused_ = {};
  if (mode == LaunchMode::fused) fused_ = {true, has_backward()};
  if (mode == LaunchMode::automatic) fused_ = automatically_fused();
  if (fused() && !counters_)
    counters_ = static_cast<std::uint32_t*>(backend_.allocate(fused::counter_bytes(buffers_.dims)));
  context_.dependent_launch =
      dependent_possible && mode != LaunchMode::eager && mode != LaunchMode::plan && mode != LaunchMode::graph;
  recorded_ = device && mode != LaunchMode::eager && mode != LaunchMode::pdl;
  context_.branches = mode == LaunchMode::automatic && device ? kMostBranches : 1;
  recordings_.clear();
}

void SparseSession::relocate() {
  auto arena = std::make_unique<Arena>(backend_, buffers_.tensors());
  arena_ = std::move(arena);
  load_inputs();
  for (auto& [pass, recorded] : recordings_) recorded.stale = true;
}

/// A variant or geometry that was asked for is one of the stages' own kernels: then these must run.
SparseSession::Fused SparseSession::automatically_fused() const {
  const Geometry& asked = context_.geometry;
  if (!backend_.device() || !all_automatic_ || asked.tile != 0 || asked.warps != 0 || asked.depth != 0) return {};
  const Fused pays{forward_fused_pays(buffers_), has_backward() && backward_fused_pays(buffers_)};
  const bool possible = (pays.forward || pays.backward) && refuse_fused(plan_, buffers_, context_).empty();
  return possible ? pays : Fused{};
}

std::string SparseSession::fused_name() const {
  const auto pass = [&](std::string_view name, bool fused, auto&& describe) {
    return fmt::format("{} {}", name, fused ? describe(buffers_, context_) : "a " + graph_name());
  };
  std::string text = "fused: " + pass("forward", fused_.forward, describe_fused_forward);
  if (has_backward()) text += "; " + pass("backward", fused_.backward, describe_fused_backward);
  return text;
}

std::string SparseSession::graph_name() const {
  const std::string name = context_.dependent_launch ? "graph of dependent launches" : "graph";
  const int branches = branch_count(buffers_.dims.streams, context_.branches);
  return branches > 1 ? fmt::format("{} in {} branches", name, branches) : name;
}

std::string SparseSession::launch_name() const {
  if (!backend_.device()) return "host";
  if (fused()) return fused_name();
  if (recorded_ && launch_ == LaunchMode::plan) return "plan";
  if (recorded_) return graph_name();
  return context_.dependent_launch ? "pdl" : "eager";
}

/// Observers must see every call, so an observed pass is never a recording, nor fused.
void SparseSession::run_only(Pass pass, std::string_view stage, StageObserver* observer) {
  if (pass == Pass::backward && !has_backward()) return;
  if (!recorded_ || observer || fault_ || !stage.empty()) return launch_pass(pass, stage, observer);
  for (const auto& part : up_to_date(pass).parts) part->replay();
}

const SparseSession::Recorded& SparseSession::up_to_date(Pass pass) {
  Recorded& recorded = recordings_[pass];
  if (!recorded.parts.empty() && !recorded.stale) return recorded;
  std::vector<std::function<void()>> bodies;
  for (const PassPart& part : recorded_parts(pass))
    bodies.emplace_back([this, part] {
      Executor executor(backend_, threads_, context_);
      part(executor);
    });
  Recorded fresh;
  std::swap(fresh.parts, recorded.parts);  // a failure leaves none behind
  for (std::size_t i = 0; i < bodies.size(); ++i) {
    if (i < fresh.parts.size())
      ++(fresh.parts[i]->update(bodies[i]) ? updates_.in_place : updates_.anew);
    else
      fresh.parts.push_back(backend_.record(bodies[i]));
  }
  return recorded = std::move(fresh);
}

std::vector<PassPart> SparseSession::recorded_parts(Pass pass) const {
  const bool is_forward = pass == Pass::forward;
  if (launch_ == LaunchMode::plan)
    return (is_forward ? forward_parts : backward_parts)(plan_, buffers_, kMostPlanParts);
  if (is_forward ? fused_.forward : fused_.backward)
    return {[this, run = is_forward ? forward_fused : backward_fused](Executor& ex) {
      run(ex, plan_, buffers_, counters_);
    }};
  return {[this, run = is_forward ? forward : backward](Executor& ex) { run(ex, plan_, buffers_); }};
}

void SparseSession::run_prepare() {
  Executor executor(backend_, threads_, context_);
  prepare(executor, plan_, buffers_);
}

void SparseSession::launch_pass(Pass pass, std::string_view stage, StageObserver* observer) {
  Spoiler spoiler(fault_, *this, observer);
  Executor executor(backend_, threads_, context_, fault_ ? &spoiler : observer, stage);
  if (pass == Pass::forward)
    forward(executor, plan_, buffers_);
  else
    backward(executor, plan_, buffers_);
}

std::vector<std::byte> SparseSession::download(const Tensor& tensor) const { return download_tensor(backend_, tensor); }

std::vector<float> SparseSession::download_floats(const Tensor& tensor) const {
  return widened(tensor, download(tensor));
}

std::vector<float> SparseSession::initial_floats(BankKind kind) const {
  const Tensor& tensor = kind == BankKind::memory ? buffers_.bank : buffers_.grad;
  std::vector<std::byte> bytes(tensor.bytes());
  initial_bank(kind, 0, tensor.count(), bytes.data());
  return widened(tensor, bytes);
}

std::string SparseSession::digest(const Tensor& tensor) const { return digest_of(backend_, tensor); }

Digests SparseSession::digests(Pass pass) const {
  if (pass == Pass::backward && !has_backward()) return {};
  std::vector<std::pair<std::string, const Tensor*>> jobs;
  for (const Tensor* tensor : buffers_.tensors())
    if (!tensor->stage.empty() && tensor->role != Tensor::Role::scratch &&
        in_forward(tensor->stage) == (pass == Pass::forward))
      jobs.emplace_back(tensor->stage, tensor);
  jobs.emplace_back(pass == Pass::forward ? "write" : "undo", &buffers_.bank);
  if (pass == Pass::backward) jobs.emplace_back("read_grad", &buffers_.grad);

  std::vector<std::string> hex(jobs.size());
  const auto hash = [&](std::int64_t i) {
    hex[static_cast<std::size_t>(i)] = digest(*jobs[static_cast<std::size_t>(i)].second);
  };
  if (backend_.device())  // one stream: downloads take turns
    for (std::size_t i = 0; i < jobs.size(); ++i) hash(static_cast<std::int64_t>(i));
  else
    threads_.for_each(static_cast<std::int64_t>(jobs.size()), hash);
  Digests digests;
  for (std::size_t i = 0; i < jobs.size(); ++i) digests[jobs[i].first][std::string(jobs[i].second->name)] = hex[i];
  return digests;
}

}  // namespace sdm
