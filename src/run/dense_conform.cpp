#include "run/dense_conform.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "numerics/f16.h"
#include "run/dense_session.h"

namespace sdm {
namespace {

using Json = nlohmann::json;
using oracle::DenseStates, oracle::DenseVerdict;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

/// A stored case: its inputs as a workload's, its outputs by stream.
struct StoredDense {
  std::string name;
  DenseWorkload workload;
  DenseInputs inputs;
  std::vector<std::uint16_t> checkpoints, v_new;  ///< [B, NT, HV, K, V], [B, T, HV, V]

  explicit StoredDense(const SafetensorsFile& file);
  DenseStates states(std::int64_t stream) const;
};

std::int32_t extent(const Json& json, const char* key, std::int32_t multiple, const std::string& path) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_integer() || found->get<std::int64_t>() < 1 ||
      found->get<std::int64_t>() > (1 << 20) || found->get<std::int64_t>() % multiple != 0)
    throw UserError(fmt::format("{}: case.{} is {}, a multiple of {} in [1, 2^20] is needed", path, key,
                                found == json.end() ? "missing" : found->dump(), multiple));
  return found->get<std::int32_t>();
}

StoredDense::StoredDense(const SafetensorsFile& file) {
  const auto found = file.metadata().find("case");
  const Json json = found == file.metadata().end() ? Json() : Json::parse(found->second, nullptr, false);
  if (!json.is_object()) throw UserError(fmt::format("{}: metadata key \"case\" is no JSON object", file.path()));
  name = json.value("name", "dense");
  const std::string& path = file.path();
  workload = {.batch = extent(json, "B", 1, path),
              .tokens = extent(json, "T", 64, path),
              .heads = extent(json, "HV", 1, path),
              .key_dim = extent(json, "K", 64, path),
              .value_dim = extent(json, "V", 64, path)};
  if (workload.key_dim > 128)
    throw UserError(fmt::format("{}: case.K is {}, 64 or 128 is needed", path, workload.key_dim));
  workload.io_dtype = file.tensor("w").type == StoredType::f16 ? DType::f16 : DType::bf16;
  workload.dq = DqMode::ordered;
  const std::int64_t b = workload.batch, t = workload.tokens, h = workload.heads, k = workload.key_dim,
                     v = workload.value_dim;
  const auto half = [&](const char* tensor, std::initializer_list<std::int64_t> shape) {
    return file.read<std::uint16_t>(tensor, workload.io_dtype, shape);
  };
  inputs = {.w = half("w", {b, t, h, k}),
            .kg = half("kg", {b, t, h, k}),
            .u = half("u", {b, t, h, v}),
            .d_out = half("do", {b, t, h, v}),
            .g2 = file.read<float>("g2", DType::f32, {b, t, h, k}),
            .h0 = file.read<float>("h0", DType::f32, {b, h, k, v})};
  checkpoints = half("out_checkpoints", {b, workload.chunks(), h, k, v});
  v_new = half("out_v_new", {b, t, h, v});
}

std::vector<double> strided_rows(const std::vector<std::uint16_t>& array, DType io, std::int64_t first,
                                 std::int64_t stride, std::int64_t rows, std::int64_t width) {
  std::vector<double> values;
  dispatch_half(io, [&]<typename T>() {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t d = 0; d < width; ++d)
        values.push_back(load_element(T{array[at((first + i * stride) * width + d)]}));
  });
  return values;
}

DenseStates StoredDense::states(std::int64_t stream) const {
  const std::int64_t heads = workload.heads, batch = stream / heads, head = stream % heads;
  return {.checkpoints = strided_rows(checkpoints, workload.io_dtype, batch * workload.chunks() * heads + head, heads,
                                      workload.chunks(), std::int64_t{workload.key_dim} * workload.value_dim),
          .v_new = strided_rows(v_new, workload.io_dtype, batch * workload.tokens * heads + head, heads,
                                workload.tokens, workload.value_dim)};
}

class DenseConformer {
 public:
  DenseConformer(const SafetensorsFile& file, Backend* gpu, Parallel& threads)
      : stored_(file), gpu_(gpu), threads_(threads), host_(make_host_backend()) {}

  std::vector<ConformRow> run() {
    const double unit = oracle::accumulation_unit(true);
    judge("stored", "outputs",
          [&](const oracle::DenseStream& s, std::int64_t i) { return judge_dense_steps(s, stored_.states(i), unit); });
    run_variant(*host_, nullptr);
    if (!gpu_) return std::move(rows_);
    for (const auto* variant : registry().dense_rescan.variants) run_variant(*gpu_, variant);
    return std::move(rows_);
  }

 private:
  void run_variant(Backend& backend, const Variant<dense_rescan::Params>* variant) {
    const std::string name = variant ? std::string(variant->name) : "replay";
    if (variant)
      if (std::string reason = variant->refuse(DenseBuffers(stored_.workload).params(), *backend.device());
          !reason.empty()) {
        rows_.push_back({stored_.name, "dense_rescan", name, "", ConformRow::Verdict::refused, reason});
        return;
      }
    DenseSession session(stored_.workload, stored_.inputs, backend, threads_, {{"dense_rescan", name}});
    session.restore();
    session.run();
    backend.synchronize();
    const double unit = oracle::accumulation_unit(session.guarantee() != Guarantee::exact);
    judge(name, "steps",
          [&](const oracle::DenseStream& s, std::int64_t i) { return judge_dense_steps(s, session.states(i), unit); });
    judge(name, "out_checkpoints, out_v_new", [&](const oracle::DenseStream& s, std::int64_t i) {
      return judge_dense_drift(s, session.states(i), stored_.states(i), oracle::DriftSource::flips);
    });
  }

  template <typename Body>
  void judge(const std::string& variant, const std::string& what, Body&& body) {
    ConformRow row{stored_.name, "dense_rescan", variant, what, ConformRow::Verdict::equal, {}};
    double worst = 0;
    for (std::int64_t i = 0; i < stored_.workload.streams(); ++i) {
      const DenseVerdict verdict = body(oracle::dense_stream(stored_.workload, stored_.inputs, i), i);
      worst = std::max(worst, verdict.worst_ratio);
      if (verdict.failure.empty() || row.verdict == ConformRow::Verdict::differs) continue;
      row.verdict = ConformRow::Verdict::differs;
      row.detail = fmt::format("stream {}: {}", i, verdict.failure);
    }
    if (row.verdict == ConformRow::Verdict::equal)
      row.detail = fmt::format("within bounds, largest error {:.0f} % of its bound", 100 * worst);
    rows_.push_back(std::move(row));
  }

  StoredDense stored_;
  Backend* gpu_;
  Parallel& threads_;
  std::unique_ptr<Backend> host_;
  std::vector<ConformRow> rows_;
};

}  // namespace

bool is_dense_case(const SafetensorsFile& file) { return file.contains("out_checkpoints") && file.contains("g2"); }

std::vector<ConformRow> conform_dense(const SafetensorsFile& file, Backend* gpu, Parallel& threads) {
  return DenseConformer(file, gpu, threads).run();
}

}  // namespace sdm
