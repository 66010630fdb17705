// What must not change the bits: threads, the order, the number and the neighbours of streams, launch geometry. And
// what may change them only within bounds: the chunk size.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "check/bitwise.h"
#include "check/check.h"
#include "check/oracle_check.h"

namespace sdm::check {
namespace {

/// Above this the permuted copies of the bank would not fit ordinary memory.
constexpr std::int64_t kMaxBankElements = std::int64_t{1} << 26;

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
    const std::string where =
        first_difference(session.buffers(), {context.forward, context.backward}, run_step(session));
    if (!where.empty()) return broken(fmt::format("with {} host threads the bits of {} change", count, where));
  }
  return held(fmt::format("host threads 1 and {}", context.threads.threads() + 1));
}

AxisResult geometry_axis(CheckContext& context) {
  if (!context.backend.device()) return not_applicable("geometry needs a GPU");
  const Geometry own = context.session.geometry();
  const Geometry geometries[] = {{32, 1, 4}, {64, 2, 8}, {96, 4, 16}, {256, 8, 32}, {1024, 16, 8}};
  for (const Geometry& geometry : geometries) {
    context.session.set_geometry(geometry);
    const std::string where =
        first_difference(context.session.buffers(), {context.forward, context.backward}, run_step(context.session));
    context.session.set_geometry(own);
    if (!where.empty())
      return broken(fmt::format("with tile {}, {} warps, depth {} the bits of {} change", geometry.tile, geometry.warps,
                                geometry.depth, where));
  }
  return held(fmt::format("{} launch geometries", std::size(geometries)));
}

AxisResult launch_axis(CheckContext& context) {
  const Device* device = context.backend.device();
  if (!device) return not_applicable("launch modes need a GPU");
  std::string modes, refused;
  for (const LaunchMode mode :
       {LaunchMode::eager, LaunchMode::pdl, LaunchMode::graph, LaunchMode::automatic, LaunchMode::fused}) {
    if (mode == LaunchMode::pdl && device->compute_capability < 90) continue;
    try {
      context.session.set_launch(mode);
    } catch (const Unsupported& reason) {
      refused += fmt::format("; {}", reason.what());
      continue;
    }
    const std::string name = context.session.launch_name();
    const std::string where =
        first_difference(context.session.buffers(), {context.forward, context.backward}, run_step(context.session));
    context.session.set_launch(context.launch);
    if (!where.empty()) return broken(fmt::format("launched as {} the bits of {} change", name, where));
    modes += (modes.empty() ? "" : ", ") + name;
  }
  return held("launch modes " + modes + refused);
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

StreamResults results_of(SparseSession& session) {
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
    add(tensor->name, *tensor);
  return results;
}

AxisResult compare_rearranged(CheckContext& context, const StreamResults& reference, const std::vector<int>& order,
                              std::string_view what) {
  const Rearranged other = rearrange(context, order);
  SparseSession session(other.workload, other.inputs, context.backend, context.threads, context.variants,
                        context.stages);
  const StreamResults results = results_of(session);
  for (std::size_t i = 0; i < results.names.size(); ++i) {
    const bool is_bank = results.names[i] == "the final bank" || results.names[i] == "grad";
    const std::vector<std::byte> expected =
        take_streams(reference.bytes[i], order, context.workload.streams, is_bank ? 1 : context.workload.steps());
    if (expected != results.bytes[i]) return broken(fmt::format("{} changes the bits of {}", what, results.names[i]));
  }
  return held(std::string(what));
}

AxisResult batch_axis(CheckContext& context) {
  if (context.workload.bank_elements() > kMaxBankElements)
    return not_applicable(fmt::format("batch: the bank has {} elements, at most {} are permuted",
                                      context.workload.bank_elements(), kMaxBankElements));
  const StreamResults reference = results_of(context.session);
  std::vector<int> reversed(static_cast<std::size_t>(context.workload.streams));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  AxisResult order = compare_rearranged(context, reference, reversed, "reversing the streams");
  if (order.kind == AxisResult::Kind::failed) return order;
  const AxisResult alone =
      compare_rearranged(context, reference, {context.workload.streams - 1}, "running the last stream alone");
  return alone.kind == AxisResult::Kind::failed ? alone : held("stream order, number and neighbours");
}

/// Other chunk sizes round the bank at other tokens, so both are held against the recurrence without rounding.
AxisResult chunk_axis(CheckContext& context) {
  if (context.workload.distribution.kind == Distribution::Kind::replay)
    return not_applicable("chunk: captured inputs come in chunks");
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
  constexpr Axis axes[] = {{"threads", threads_axis},
                           {"geometry", geometry_axis},
                           {"launch", launch_axis},
                           {"batch", batch_axis},
                           {"chunk", chunk_axis}};
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
