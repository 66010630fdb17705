// The forward half. Numbers (n) are equations of docs/oracle.md.
#include "oracle/error_walk.h"

#include <algorithm>
#include <cmath>

#include "oracle/bounds.h"
#include "oracle/local_errors.h"

namespace sdm::oracle {

ErrorWalk::ErrorWalk(const StreamMap& map, const std::vector<ChunkForm>& forms, const OracleOptions& options,
                     int columns)
    : map_(map), forms_(forms), options_(options), columns_(columns) {
  const std::size_t rows = map.rows.size() * columns, tokens = std::size_t(map.w.tokens) * columns;
  for (auto* x : {&bank, &grad, &energy_, &grad_energy_, &floor_}) x->assign(rows, 0.0);
  for (auto* x : {&reading, &d_v, &delta_local_, &delta_, &retrieved_, &retrieved0_}) x->assign(tokens, 0.0);
  group_energy_.assign(map.rows.size(), 0.0);
  before_.resize(map.w.steps());
}

void ErrorWalk::forward_chunk(int chunk, const StreamState& s) {
  const ForwardErrors local = forward_errors(map_, forms_[chunk], chunk, s);
  const std::int64_t at = std::int64_t{map_.chunk_begin(chunk)} * columns_;
  std::copy(local.delta.begin(), local.delta.end(), delta_local_.begin() + at);
  std::copy(local.retrieved.begin(), local.retrieved.end(), retrieved_.begin() + at);
  std::copy(local.retrieved0.begin(), local.retrieved0.end(), retrieved0_.begin() + at);
  std::copy(local.reading.begin(), local.reading.end(), reading.begin() + at);
  if (options_.backward) save_rows(chunk, s);
  open_floor(chunk, bank);
  walk_rows_forward(chunk);
  end_rows(chunk, s);
}

void ErrorWalk::save_rows(int chunk, const StreamState& s) {
  const auto& written = map_.written[chunk];
  before_[chunk].resize(written.size() * columns_);
  for (std::size_t i = 0; i < written.size(); ++i) {
    double* saved = before_[chunk].data() + i * columns_;
    std::copy_n(bank.data() + std::int64_t{written[i]} * columns_, columns_, saved);
    if (options_.snapshot_round_trip)
      variance_after_snapshot({s.before[chunk].data() + i * columns_, std::size_t(columns_)},
                              {saved, std::size_t(columns_)}, map_.w.snapshot, map_.w.bank_dtype);
  }
}

/// (18b) The delta rule shrinks errors along the token's strengths only. Strengths that resemble each other leave the
/// other directions as they are, so inside a chunk a row's error is never taken below what it began with, decayed.
/// With one write per token there is no other direction.
void ErrorWalk::open_floor(int chunk, const std::vector<double>& variances) {
  if (map_.w.writes == 1) return;
  for (std::int32_t row : map_.written[chunk])
    std::copy_n(variances.data() + std::int64_t{row} * columns_, columns_,
                floor_.data() + std::int64_t{row} * columns_);
}

/// (18) The recurrence's own linear map on errors of different rows, taken as independent, with each token's local
/// error of delta injected. The coefficient of a row's own error is kept whole: it is what makes the map contract.
void ErrorWalk::walk_rows_forward(int chunk) {
  const int writes = map_.w.writes;
  std::vector<double> retrieved(static_cast<std::size_t>(columns_));
  for (int t = map_.chunk_begin(chunk); t < map_.chunk_end(chunk); ++t) {
    const double beta = map_.beta(t), beta2 = beta * beta;
    const std::int64_t token = std::int64_t{t} * columns_;
    std::fill(retrieved.begin(), retrieved.end(), 0.0);
    for (int n = 0; n < writes; ++n) {
      const double* row = bank.data() + std::int64_t{map_.k_row[std::int64_t{t} * writes + n]} * columns_;
      const double factor = std::pow(map_.k(t, n), 2) * std::exp(2 * map_.g(t, n));
      for (int c = 0; c < columns_; ++c) retrieved[c] += factor * row[c];
    }
    for (int n = 0; n < writes; ++n) {
      double* row = bank.data() + std::int64_t{map_.k_row[std::int64_t{t} * writes + n]} * columns_;
      double* floor = floor_.data() + (row - bank.data());
      const double k2 = std::pow(map_.k(t, n), 2), decay2 = std::exp(2 * map_.g(t, n)),
                   own = decay2 * (1 - 2 * beta * k2);
      for (int c = 0; c < columns_; ++c) {
        floor[c] *= decay2;
        row[c] = std::max(floor[c], own * row[c] + k2 * (beta2 * retrieved[c] + delta_local_[token + c]));
      }
    }
    for (int c = 0; c < columns_; ++c) {
      retrieved_[token + c] += retrieved[c];
      delta_[token + c] = beta2 * retrieved[c] + delta_local_[token + c];
    }
    for (int m = 0; m < map_.w.reads; ++m) {
      const double* row = bank.data() + std::int64_t{map_.q_row[std::int64_t{t} * map_.w.reads + m]} * columns_;
      const double q2 = std::pow(map_.q(t, m), 2);
      for (int c = 0; c < columns_; ++c) reading[token + c] += q2 * row[c];
    }
  }
}

/// (19) what the write stage adds to each row, then the rounding to the bank dtype.
void ErrorWalk::end_rows(int chunk, const StreamState& s) {
  const ChunkForm& form = forms_[chunk];
  const auto& written = map_.written[chunk];
  const int begin = map_.chunk_begin(chunk), writes = map_.w.writes;
  std::vector<double> terms(written.size() * columns_, 0.0);
  for (std::size_t e = 0; e < form.write.size(); ++e) {
    const double* delta = s.delta.data() + (begin + std::int64_t(e) / writes) * columns_;
    double* sum = terms.data() + std::int64_t{form.k_group[e]} * columns_;
    const double factor =
        std::pow(form.write[e].value, 2) * (form.write[e].relative + form.members[form.k_group[e]] * kU2);
    for (int c = 0; c < columns_; ++c) sum[c] += factor * delta[c] * delta[c];
  }
  for (std::size_t i = 0; i < written.size(); ++i) {
    const Weight& cpe = form.group[i];
    for (int c = 0; c < columns_; ++c) {
      const double end = s.bank_row(written[i])[c], base = cpe.value * s.before[chunk][i * columns_ + c];
      const double added = end - base;
      double& variance = bank[std::int64_t{written[i]} * columns_ + c];
      variance += terms[i * columns_ + c] + cpe.relative * base * base + form.members[i] * kU2 * added * added +
                  kU2 * end * end;
      variance = variance_after_rounding(end, variance, map_.w.bank_dtype, options_.round_bank);
    }
  }
}

}  // namespace sdm::oracle
