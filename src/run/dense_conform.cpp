#include "run/dense_conform.h"

#include <fmt/format.h>

#include "io/golden_dense.h"
#include "numerics/f16.h"
#include "run/dense_session.h"

namespace sdm {
namespace {

using oracle::DenseStates, oracle::DenseVerdict;

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

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

/// The stored outputs of one stream.
DenseStates states_of(const GoldenDense& stored, std::int64_t stream) {
  const DenseWorkload& w = stored.workload;
  const std::int64_t heads = w.heads, batch = stream / heads, head = stream % heads;
  return {
      .checkpoints = strided_rows(stored.checkpoints, w.io_dtype, batch * w.chunks() * heads + head, heads, w.chunks(),
                                  std::int64_t{w.key_dim} * w.value_dim),
      .v_new = strided_rows(stored.v_new, w.io_dtype, batch * w.tokens * heads + head, heads, w.tokens, w.value_dim)};
}

class DenseConformer {
 public:
  DenseConformer(const SafetensorsFile& file, Backend* gpu, Parallel& threads)
      : stored_(read_golden_dense(file)), gpu_(gpu), threads_(threads), host_(make_host_backend()) {}

  std::vector<ConformRow> run() {
    const double unit = oracle::accumulation_unit(true);
    judge("stored", "outputs", [&](const oracle::DenseStream& s, std::int64_t i) {
      return judge_dense_steps(s, states_of(stored_, i), unit);
    });
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
      return judge_dense_drift(s, session.states(i), states_of(stored_, i), oracle::DriftSource::flips);
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

  GoldenDense stored_;
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
