// The replay check: the bits of a device run against the host replay's, at the end or after every stage call.
#include "check/lockstep.h"

#include <fmt/format.h>

#include "base/digest.h"
#include "check/bitwise.h"
#include "check/check.h"

namespace sdm::check {
namespace {

/// Thrown to leave a pass early once the interesting call has run.
struct StopPass {};

struct CallRecord {
  StageCall call;
  std::vector<const Tensor*> tensors;
  std::vector<std::string> digests;
};

/// The tensors that a stage call leaves results in, banks included.
std::vector<const Tensor*> results_of(const SparseBuffers& buffers, std::string_view stage) {
  std::vector<const Tensor*> tensors;
  for (const Tensor* tensor : buffers.tensors())
    if (tensor->stage == stage && tensor->role != Tensor::Role::scratch) tensors.push_back(tensor);
  if (stage == "write" || stage == "undo") tensors.push_back(&buffers.bank);
  if (stage == "undo" || stage == "read_grad") tensors.push_back(&buffers.grad);
  return tensors;
}

std::vector<std::byte> step_bytes(const SparseSession& session, const Tensor& tensor, int step) {
  std::vector<std::byte> bytes;
  for (const ByteRange& range : step_ranges(tensor, session.buffers().dims.streams, step)) {
    const std::size_t at = bytes.size();
    bytes.resize(at + range.bytes);
    session.backend().download(bytes.data() + at, tensor.as<const std::byte>() + range.begin, range.bytes);
  }
  return bytes;
}

class Recorder final : public StageObserver {
 public:
  explicit Recorder(const SparseSession& session) : session_(session) {}
  void after(const StageCall& call) override {
    CallRecord record{call, results_of(session_.buffers(), call.stage), {}};
    for (const Tensor* tensor : record.tensors)
      record.digests.push_back(digest_values(tensor->dtype, step_bytes(session_, *tensor, call.step)));
    records.push_back(std::move(record));
  }
  std::vector<CallRecord> records;

 private:
  const SparseSession& session_;
};

/// Compares each call with the recorded one and stops at the first that differs.
class Comparer final : public StageObserver {
 public:
  Comparer(const SparseSession& session, const std::vector<CallRecord>& expected)
      : session_(session), expected_(expected) {}
  void after(const StageCall& call) override {
    const CallRecord& record = expected_[calls_];
    const std::vector<const Tensor*> tensors = results_of(session_.buffers(), call.stage);
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (digest_values(tensors[i]->dtype, step_bytes(session_, *tensors[i], call.step)) != record.digests[i]) {
        differing_tensor = i;
        differing_call = calls_;
        throw StopPass{};
      }
    ++calls_;
  }
  std::size_t differing_tensor = 0, differing_call = 0;

 private:
  const SparseSession& session_;
  const std::vector<CallRecord>& expected_;
  std::size_t calls_ = 0;
};

class StopAfter final : public StageObserver {
 public:
  explicit StopAfter(std::size_t call) : left_(call + 1) {}
  void after(const StageCall&) override {
    if (--left_ == 0) throw StopPass{};
  }

 private:
  std::size_t left_;
};

/// True where the step ran to its end.
bool run_until_stopped(SparseSession& session, StageObserver& observer) {
  session.restore();
  try {
    session.run_training_step(&observer);
    return true;
  } catch (const StopPass&) {
    return false;
  }
}

std::string describe_difference(const SparseSession& host, const SparseSession& device, const Tensor& on_host,
                                const Tensor& on_device, int step) {
  std::vector<std::int64_t> shape = on_host.shape;
  if (on_host.chunk_axis >= 0 && step >= 0)
    shape[static_cast<std::size_t>(on_host.chunk_axis)] = host.buffers().dims.streams;
  const auto difference = compare_bits(on_host.dtype, shape, step_bytes(host, on_host, step).data(),
                                       step_bytes(device, on_device, step).data());
  return difference ? difference->sentence() : "equal when compared again: the result is not stable";
}

CheckResult lockstep(CheckContext& context, SparseSession& host) {
  Recorder recorder(host);
  run_until_stopped(host, recorder);
  Comparer comparer(context.session, recorder.records);
  if (run_until_stopped(context.session, comparer))
    return passed(fmt::format("bits equal the replay's after each of {} stage calls", recorder.records.size()));
  StopAfter stop(comparer.differing_call);
  run_until_stopped(host, stop);
  const CallRecord& record = recorder.records[comparer.differing_call];
  const Tensor& on_host = *record.tensors[comparer.differing_tensor];
  const Tensor& on_device = *results_of(context.session.buffers(), record.call.stage)[comparer.differing_tensor];
  return failed(fmt::format("first difference after {}{} in {} (within the step): {}", record.call.stage,
                            record.call.step < 0 ? "" : fmt::format(" of step {}", record.call.step), on_host.name,
                            describe_difference(host, context.session, on_host, on_device, record.call.step)));
}

}  // namespace

std::string first_differing_call(SparseSession& session, const std::function<void()>& as_first,
                                 const std::function<void()>& as_second, std::string* first_stage) {
  as_first();
  Recorder recorder(session);
  run_until_stopped(session, recorder);
  as_second();
  Comparer comparer(session, recorder.records);
  if (run_until_stopped(session, comparer)) return {};
  const CallRecord& record = recorder.records[comparer.differing_call];
  if (first_stage) *first_stage = record.call.stage;
  return fmt::format("{}{} in {}", record.call.stage,
                     record.call.step < 0 ? "" : fmt::format(" of step {}", record.call.step),
                     record.tensors[comparer.differing_tensor]->name);
}

CheckResult replay(const CheckSpec& spec, CheckContext& context) {
  if (!context.backend.device() && !context.stages.fault)
    return skipped("the replay itself ran here; the oracle check is the one that judges it");
  if (const std::string loose = variants_of(context.session, Guarantee::repeatable); !loose.empty())
    return skipped(fmt::format("{} repeats but has not the replay's bits; the oracle judges it", loose));
  SparseSession host(context.workload, context.inputs, context.host, context.threads, {});
  const Difference found = difference(host.buffers(), run_step(host), {context.forward, context.backward});
  context.ledger.note("replay", DeterminismLevel::cpu_equal, found);
  if (spec.lockstep) return lockstep(context, host);
  if (found.where.empty()) return passed("every tensor has the replay's bits after the forward and after the backward");
  return failed(fmt::format(
      "{} is the first tensor that differs from the replay; \"lockstep\": true names stage, step and coordinate",
      found.where));
}

}  // namespace sdm::check
