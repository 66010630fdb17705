#include <fmt/format.h>

#include "check/check.h"
#include "check/oracle_check.h"
#include "oracle/bounds.h"
#include "oracle/sparse.h"

namespace sdm::check {
namespace {

/// Above this the oracle's doubles would not fit ordinary memory.
constexpr std::int64_t kMostOracleElements = std::int64_t{1} << 28;

}  // namespace

std::string too_large_for_oracle(const SparseWorkload& workload) {
  if (workload.bank_elements() <= kMostOracleElements) return {};
  return fmt::format("the bank has {} elements; the fp64 oracle takes at most {}", workload.bank_elements(),
                     kMostOracleElements);
}

OracleVerdict judge(SparseSession& session, const SparseInputs& inputs, const OracleOptions& options, bool forward_only,
                    Parallel& threads) {
  const SparseWorkload& workload = session.buffers().workload;
  const bool has_final = workload.final_bank_gradient || !inputs.d_final_bank.empty();
  const std::vector<float> bank = session.initial_floats(BankKind::memory);
  const std::vector<float> d_final = has_final ? session.initial_floats(BankKind::gradient) : std::vector<float>{};
  const OracleResult oracle = run_oracle(workload, inputs, bank, d_final, options, threads);

  const SparseBuffers& b = session.buffers();
  session.restore();
  session.run(Pass::forward);
  const std::vector<float> reading = session.download_floats(b.reading), final_bank = session.download_floats(b.bank);
  session.run(Pass::backward);
  const auto floats = [&](const Tensor& t) { return forward_only ? std::vector<float>{} : session.download_floats(t); };
  const std::vector<float> d_bank = floats(b.grad), d_k = floats(b.d_k), d_q = floats(b.d_q), d_v = floats(b.d_v),
                           d_beta = floats(b.d_beta), d_g = floats(b.d_g);
  OracleVerdict verdict;
  for (const OutputVerdict& output :
       compare(workload, oracle, {reading, final_bank, d_bank, d_k, d_q, d_v, d_beta, d_g})) {
    verdict.worst_ratio = std::max(verdict.worst_ratio, output.worst_ratio);
    ++verdict.outputs;
    if (!output.passed && verdict.failure.empty()) verdict.failure = output.detail;
  }
  return verdict;
}

CheckResult oracle(const CheckSpec& spec, CheckContext& context) {
  if (context.workload.values == Values::infinite || context.workload.values == Values::nan)
    return skipped("the inputs hold infinities or NaN: there are no bounds; the replay defines the bits");
  if (const std::string reason = too_large_for_oracle(context.workload); !reason.empty()) return skipped(reason);
  const OracleOptions options{.round_bank = spec.round_bank, .backward = context.session.has_backward()};
  const OracleVerdict verdict =
      judge(context.session, context.inputs, options, !context.session.has_backward(), context.threads);
  if (!verdict.failure.empty()) return failed(verdict.failure);
  return passed(fmt::format("{} outputs within the derived bounds; the largest error is {:.0f} % of its bound",
                            verdict.outputs, 100 * verdict.worst_ratio));
}

}  // namespace sdm::check
