// What must not change the bits: threads, the order, the number and the neighbours of streams, launch geometry. And
// what may change them only within bounds: the chunk size.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "check/bitwise.h"
#include "check/check.h"
#include "check/lockstep.h"
#include "check/oracle_check.h"

namespace sdm::check {
namespace {

/// Above this the permuted copies of the bank would not fit ordinary memory.
constexpr std::int64_t kMostInvarianceElements = std::int64_t{1} << 26;

/// An axis that held, failed (with a sentence), or did not apply (with the reason).
struct AxisResult {
  enum class Kind : std::uint8_t { held, failed, not_applicable } kind;
  std::string detail;
};
AxisResult held(std::string detail) { return {AxisResult::Kind::held, std::move(detail)}; }
AxisResult broken(std::string detail) { return {AxisResult::Kind::failed, std::move(detail)}; }
AxisResult not_applicable(std::string detail) { return {AxisResult::Kind::not_applicable, std::move(detail)}; }

AxisResult threads_axis(CheckContext& context) {
  for (const int count : {1, context.threads.threads() + 1}) {
    Parallel threads(count);
    SparseSession session(context.workload, context.inputs, context.host, threads, {}, context.stages);
    const StepDigests again = run_step(session);
    const Difference found =
        context.backend.device()
            ? difference(session.buffers(), {context.forward, context.backward}, again)
            : compare_with_reference(context, "invariance (threads)", DeterminismLevel::geometry, again);
    if (!found.where.empty())
      return broken(fmt::format("with {} host threads the bits of {} change", count, found.where));
  }
  return held(fmt::format("host threads 1 and {}", context.threads.threads() + 1));
}

AxisResult geometry_axis(CheckContext& context) {
  if (!context.backend.device()) return not_applicable("geometry needs a GPU");
  SparseSession& session = context.session;
  const Geometry own = session.geometry();
  for (const Geometry& geometry : other_geometries()) {
    session.set_geometry(geometry);
    const Difference found =
        compare_with_reference(context, "invariance (geometry)", DeterminismLevel::geometry, run_step(session));
    std::string call;
    if (!found.where.empty())
      call = first_differing_call(
          session, [&] { session.set_geometry(own); }, [&] { session.set_geometry(geometry); });
    session.set_geometry(own);
    if (!found.where.empty())
      return broken(fmt::format("with tile {}, {} warps, depth {} the bits of {} change{}", geometry.tile,
                                geometry.warps, geometry.depth, found.where, call.empty() ? "" : ", first in " + call));
  }
  return held(fmt::format("{} launch geometries", other_geometries().size()));
}

AxisResult launch_axis(CheckContext& context) {
  if (!context.backend.device()) return not_applicable("launch modes need a GPU");
  std::string modes, failure;
  each_launch_mode(context.session, context.launch, [&](const std::string& name) {
    const Difference found = compare_with_reference(context, "invariance (launch)", DeterminismLevel::launch_mode,
                                                    run_step(context.session));
    if (!found.where.empty()) failure = fmt::format("launched as {} the bits of {} change", name, found.where);
    modes += (modes.empty() ? "" : ", ") + name;
    return failure.empty();
  });
  return failure.empty() ? held("launch modes " + modes) : broken(failure);
}

/// The workload with its streams rearranged: stream i of the result is stream order[i] of the source. Banks become
/// captured ones, since the generator knows streams by their position.
struct Rearranged {
  SparseWorkload workload;
  SparseInputs inputs;
};

template <typename T>
std::vector<T> take_streams(const std::vector<T>& source, const std::vector<int>& order, std::int64_t old_streams,
                            std::int64_t outer) {
  if (source.empty()) return {};
  const std::int64_t size = static_cast<std::int64_t>(source.size()) / (outer * old_streams);
  std::vector<T> out;
  out.reserve(static_cast<std::size_t>(outer * size) * order.size());
  for (std::int64_t o = 0; o < outer; ++o)
    for (const int stream : order) {
      const auto begin = source.begin() + (o * old_streams + stream) * size;
      out.insert(out.end(), begin, begin + size);
    }
  return out;
}

Rearranged rearrange(const CheckContext& context, const std::vector<int>& order) {
  const SparseWorkload& w = context.workload;
  const SparseInputs& in = context.inputs;
  Rearranged out{w, {}};
  out.workload.streams = static_cast<std::int32_t>(order.size());
  const auto chunked = [&](const auto& source) { return take_streams(source, order, w.streams, w.steps()); };
  const auto shifted = [&](std::vector<std::int32_t> index, std::int64_t entries) {
    for (std::size_t i = 0; i < index.size(); ++i) {
      const std::int64_t row = static_cast<std::int64_t>(i) / entries;
      const std::int64_t chunk = row / w.chunk;
      const std::int64_t token = row % w.chunk + chunk / static_cast<std::int64_t>(order.size()) * w.chunk;
      if (token >= w.tokens) continue;  // padding stays 0
      const std::int64_t stream = chunk % static_cast<std::int64_t>(order.size());
      index[i] = static_cast<std::int32_t>(index[i] + (stream - order[static_cast<std::size_t>(stream)]) * w.slots);
    }
    return index;
  };
  out.inputs.k_idx = shifted(chunked(in.k_idx), w.writes);
  out.inputs.q_idx = shifted(chunked(in.q_idx), w.reads);
  out.inputs.k = chunked(in.k), out.inputs.q = chunked(in.q), out.inputs.g = chunked(in.g),
  out.inputs.v = chunked(in.v);
  out.inputs.beta = chunked(in.beta), out.inputs.d_reading = chunked(in.d_reading);
  out.inputs.bank = take_streams(context.session.initial_floats(BankKind::memory), order, w.streams, 1);
  out.inputs.d_final_bank = take_streams(context.session.initial_floats(BankKind::gradient), order, w.streams, 1);
  return out;
}

/// What a stream leaves, in the order of its chunks; slots are absolute and left out.
struct StreamResults {
  std::vector<std::string_view> names;
  std::vector<std::vector<std::byte>> bytes;
};

StreamResults stream_results(SparseSession& session) {
  session.restore();
  session.run(Pass::forward);
  const SparseBuffers& b = session.buffers();
  StreamResults results;
  const auto add = [&](std::string_view name, const Tensor& tensor) {
    results.names.push_back(name);
    results.bytes.push_back(session.download(tensor));
  };
  add("the final bank", b.bank);
  session.run(Pass::backward);
  for (const Tensor* tensor : {&b.reading, &b.delta_v, &b.d_k, &b.d_q, &b.d_v, &b.d_beta, &b.d_g, &b.grad})
    if (tensor->present()) add(tensor->name, *tensor);
  return results;
}

/// The stage that leaves a result, for the ledger.
std::string stage_of(const SparseBuffers& buffers, std::string_view result) {
  for (const Tensor* tensor : buffers.tensors())
    if (tensor->name == result && !tensor->stage.empty()) return std::string(tensor->stage);
  return result == "grad" ? "read_grad" : "write";
}

AxisResult compare_rearranged(CheckContext& context, const StreamResults& reference, const std::vector<int>& order,
                              std::string_view what) {
  const Rearranged other = rearrange(context, order);
  SparseSession session(other.workload, other.inputs, context.backend, context.threads, context.variants,
                        context.stages);
  const StreamResults results = stream_results(session);
  Difference found;
  for (std::size_t i = 0; i < results.names.size(); ++i) {
    const bool is_bank = results.names[i] == "the final bank" || results.names[i] == "grad";
    const std::vector<std::byte> expected =
        take_streams(reference.bytes[i], order, context.workload.streams, is_bank ? 1 : context.workload.steps());
    if (expected == results.bytes[i]) continue;
    if (found.where.empty()) found.where = results.names[i];
    found.stages.insert(stage_of(context.session.buffers(), results.names[i]));
  }
  context.ledger.note(fmt::format("invariance ({})", what), DeterminismLevel::geometry, found);
  return found.where.empty() ? held(std::string(what))
                             : broken(fmt::format("{} changes the bits of {}", what, found.where));
}

std::string too_large_to_permute(const CheckContext& context) {
  if (context.workload.bank_elements() <= kMostInvarianceElements) return {};
  return fmt::format("the bank has {} elements, at most {} are permuted", context.workload.bank_elements(),
                     kMostInvarianceElements);
}

AxisResult stream_order_axis(CheckContext& context) {
  if (const std::string reason = too_large_to_permute(context); !reason.empty())
    return not_applicable("stream_order: " + reason);
  std::vector<int> reversed(static_cast<std::size_t>(context.workload.streams));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  const AxisResult order =
      compare_rearranged(context, stream_results(context.session), reversed, "reversing the streams");
  return order.kind == AxisResult::Kind::failed ? order : held("stream order");
}

AxisResult batch_axis(CheckContext& context) {
  if (const std::string reason = too_large_to_permute(context); !reason.empty())
    return not_applicable("batch: " + reason);
  const int last = context.workload.streams - 1;
  const StreamResults reference = stream_results(context.session);
  AxisResult alone = compare_rearranged(context, reference, {last}, "running the last stream alone");
  if (alone.kind == AxisResult::Kind::failed) return alone;
  const AxisResult twins =
      compare_rearranged(context, reference, {last, 0, last}, "running the last stream twice around the first");
  return twins.kind == AxisResult::Kind::failed ? twins : held("number and neighbours of streams");
}

/// Other chunk sizes round the bank at other tokens, so both are held against the recurrence without rounding.
AxisResult chunk_axis(CheckContext& context) {
  if (context.workload.distribution.kind == Distribution::Kind::replay)
    return not_applicable("chunk: captured inputs come in chunks");
  if (context.workload.values != Values::ordinary) return not_applicable("chunk: the inputs hold special values");
  if (const std::string reason = too_large_for_oracle(context.workload); !reason.empty())
    return not_applicable("chunk: " + reason);
  const bool lossless =
      context.workload.snapshot == SnapshotFormat::raw || context.workload.snapshot == SnapshotFormat::per_entry;
  const OracleOptions options{.round_bank = false, .snapshot_round_trip = false, .backward = lossless};
  const int c = context.workload.chunk;
  for (const int chunk : {c > 3 ? c / 2 : c, c <= 128 ? 2 * c : c}) {
    SparseWorkload workload = context.workload;
    workload.chunk = chunk;
    const SparseInputs inputs = generate_inputs(workload, context.threads);
    SparseSession session(workload, inputs, context.backend, context.threads, context.variants, context.stages);
    const OracleVerdict verdict = judge(session, inputs, options, !lossless, context.threads);
    if (!verdict.failure.empty()) return broken(fmt::format("with chunk {} {}", chunk, verdict.failure));
  }
  return held("chunk size (within the bounds of the recurrence without rounding)");
}

}  // namespace

CheckResult invariance(const CheckSpec& spec, CheckContext& context) {
  struct Axis {
    std::string_view name;
    AxisResult (*run)(CheckContext&);
  };
  constexpr Axis axes[] = {{"threads", threads_axis},           {"geometry", geometry_axis}, {"launch", launch_axis},
                           {"stream_order", stream_order_axis}, {"batch", batch_axis},       {"chunk", chunk_axis}};
  std::string held_axes, left_out;
  for (const Axis& axis : axes) {
    if (!spec.axes.empty() && std::find(spec.axes.begin(), spec.axes.end(), axis.name) == spec.axes.end()) continue;
    const AxisResult result = axis.run(context);
    if (result.kind == AxisResult::Kind::failed) return failed(result.detail);
    std::string& list = result.kind == AxisResult::Kind::held ? held_axes : left_out;
    list += (list.empty() ? "" : "; ") + result.detail;
  }
  if (held_axes.empty()) return skipped(left_out.empty() ? "no axis of this check applies here" : left_out);
  return passed("unchanged by " + held_axes);
}

}  // namespace sdm::check
