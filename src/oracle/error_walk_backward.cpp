// The reverse half. Numbers (n) are equations of docs/oracle.md.
#include <algorithm>
#include <cmath>

#include "oracle/bounds.h"
#include "oracle/error_walk.h"
#include "oracle/local_errors.h"
#include "oracle/rounding.h"

namespace sdm::oracle {

namespace {

/// (22) A dot over D columns, summed in lanes, trees and slices, in pieces whose weights carry relative errors `log2`:
/// variance per square of a piece's size.
double dot_factor(const StreamMap& map, int pieces, double log2) {
  return kU2 * (16 + map.w.head_dim / 32 + pieces) + log2;
}

double group_factor(const StreamMap& map, const ChunkForm& form, int group) {
  return group < 0 ? dot_factor(map, 0, 0) : dot_factor(map, form.members[group], form.log2[group]);
}

/// Decay gradients sum over all members of a group, whatever the member.
double decay_factor(const StreamMap& map, const ChunkForm& form, int group) {
  return dot_factor(map, 8 * form.members[group], form.log2[group]);
}

double token_factor(const StreamMap& map, const ChunkForm& form, int local) {
  double log2 = 0;
  for (int n = 0; n < map.w.writes; ++n) log2 = std::max(log2, form.log2[form.k_group[local * map.w.writes + n]]);
  return dot_factor(map, form.n + map.w.writes, log2);
}

}  // namespace

void ErrorWalk::reverse_chunk(int chunk, const StreamState& s, StreamDots& dots) {
  const ChunkForm& form = forms_[chunk];
  const int begin = map_.chunk_begin(chunk), writes = map_.w.writes;
  d_delta_local_ = backward_errors(map_, form, chunk, s);
  replay_rows(chunk, s);
  open_floor(chunk, grad);
  for (int t = map_.chunk_end(chunk) - 1; t >= begin; --t) {
    reverse_reads(t, form, s, dots);
    reverse_token(t, t - begin, form, s, dots);
    reverse_writes(t, t - begin, form, s, dots);
  }
  for (std::size_t e = 0; e < form.k_group.size(); ++e) {  // (25)
    const int group = form.k_group[e];
    const double share =
        2 * map_.w.head_dim * decay_factor(map_, form, group) * group_energy_[map_.written[chunk][group]];
    dots.d_g_var[std::size_t(begin) * writes + e] += share;
    dots.d_g_token_var[begin + e / writes] += share;
  }
  end_gradient_rows(chunk, s);
  before_[chunk] = {};
}

/// (20) Rows of the trajectory that the reverse differentiates along, and their piece energies (21).
void ErrorWalk::replay_rows(int chunk, const StreamState& s) {
  const int writes = map_.w.writes, begin = map_.chunk_begin(chunk);
  const auto& written = map_.written[chunk];
  const std::size_t log_size = std::size_t(map_.w.chunk) * writes * columns_;
  old_rows_.resize(log_size);
  old_energy_.resize(log_size);
  for (std::int64_t e = std::int64_t{begin} * map_.w.reads; e < std::int64_t{map_.chunk_end(chunk)} * map_.w.reads; ++e)
    for (int c = 0; c < columns_; ++c) {
      const std::int64_t i = std::int64_t{map_.q_row[e]} * columns_ + c;
      energy_[i] = s.bank[i] * s.bank[i];
    }
  for (std::size_t g = 0; g < written.size(); ++g) {
    const double cpe = forms_[chunk].group[g].value;
    double carried = 0;
    for (int c = 0; c < columns_; ++c) {
      const std::int64_t i = std::int64_t{written[g]} * columns_ + c;
      const double gradient = s.grad_in[g * columns_ + c], row = s.bank[i];
      bank[i] = before_[chunk][g * columns_ + c];
      energy_[i] = row * row;
      grad_energy_[i] = gradient * gradient;
      carried += std::pow(cpe * gradient * row, 2);
    }
    group_energy_[written[g]] = carried;
  }
  for (int t = begin; t < map_.chunk_end(chunk); ++t)
    for (int n = 0; n < writes; ++n) {
      const std::int64_t row = std::int64_t{map_.k_row[std::int64_t{t} * writes + n]} * columns_;
      const std::int64_t log = (std::int64_t{t - begin} * writes + n) * columns_;
      const double k2 = std::pow(map_.k(t, n), 2), decay2 = std::exp(2 * map_.g(t, n));
      for (int c = 0; c < columns_; ++c) {
        const double delta = s.delta[std::int64_t{t} * columns_ + c];
        old_rows_[log + c] = bank[row + c];
        old_energy_[log + c] = energy_[row + c];
        bank[row + c] = decay2 * bank[row + c] + k2 * delta_[std::int64_t{t} * columns_ + c];
        energy_[row + c] = decay2 * energy_[row + c] + k2 * delta * delta;
      }
    }
}

void ErrorWalk::reverse_reads(int t, const ChunkForm& form, const StreamState& s, StreamDots& dots) {
  const int reads = map_.w.reads, local = t % map_.w.chunk;
  const float* d_reading = map_.d_reading(t, s.first_column);
  for (int m = 0; m < reads; ++m) {
    const std::int64_t entry = std::int64_t{t} * reads + m, row = std::int64_t{map_.q_row[entry]} * columns_;
    const double q2 = std::pow(map_.q(t, m), 2);
    double carried = 0, energy = 0;
    for (int c = 0; c < columns_; ++c) {
      const double gr2 = double{d_reading[c]} * d_reading[c];
      carried += gr2 * bank[row + c];
      energy += gr2 * energy_[row + c];
      grad_energy_[row + c] += q2 * gr2;
    }
    const double factor = group_factor(map_, form, form.q_group[local * reads + m]);
    dots.d_q_var[entry] += carried + factor * map_.w.head_dim * energy;  // (23)
    group_energy_[map_.q_row[entry]] += q2 * energy;
  }
}

/// d_delta's error, and with it d_v and d_beta (24).
void ErrorWalk::reverse_token(int t, int local, const ChunkForm& form, const StreamState& s, StreamDots& dots) {
  const int writes = map_.w.writes;
  const std::int64_t token = std::int64_t{t} * columns_;
  const double beta = map_.beta(t), factor = token_factor(map_, form, local);
  const float* v = map_.v(t, s.first_column);
  double* all = d_delta_local_.data() + std::int64_t{local} * columns_;
  std::vector<double> energy(static_cast<std::size_t>(columns_)), retrieved(energy);
  for (int c = 0; c < columns_; ++c) energy[c] = v[c] * v[c] + retrieved0_[token + c];
  for (int n = 0; n < writes; ++n) {
    const std::int64_t log = (std::int64_t{local} * writes + n) * columns_;
    const double* row = grad.data() + std::int64_t{map_.k_row[std::int64_t{t} * writes + n]} * columns_;
    const double k = map_.k(t, n), decay = std::exp(map_.g(t, n)), k2 = k * k, kd2 = k2 * decay * decay;
    for (int c = 0; c < columns_; ++c) {
      all[c] += k2 * row[c];
      energy[c] += kd2 * old_energy_[log + c];
      retrieved[c] += k * decay * s.old_rows[log + c];
    }
  }
  for (int c = 0; c < columns_; ++c) {
    const double a2 = std::pow(s.d_delta[std::int64_t{local} * columns_ + c], 2);
    const double residual = v[c] - s.retrieved[token + c];
    d_v[token + c] = beta * beta * (all[c] + kU2 * a2);
    dots.d_beta_var[t] +=
        all[c] * residual * residual + a2 * (retrieved_[token + c] + factor * map_.w.head_dim * energy[c]);
    dots.d_g_token_var[t] += beta * beta * all[c] * retrieved[c] * retrieved[c];
  }
}

/// d_k, d_g, and the gradient rows through the token's write (26). `d_delta_local_` holds all of d_delta's error here.
void ErrorWalk::reverse_writes(int t, int local, const ChunkForm& form, const StreamState& s, StreamDots& dots) {
  const int writes = map_.w.writes;
  const double beta = map_.beta(t), beta2 = beta * beta;
  const double* delta = s.delta.data() + std::int64_t{t} * columns_;
  const double* delta_variance = delta_.data() + std::int64_t{t} * columns_;
  const double* a = s.d_delta.data() + std::int64_t{local} * columns_;
  const double* a_variance = d_delta_local_.data() + std::int64_t{local} * columns_;
  for (int n = 0; n < writes; ++n) {
    const std::int64_t entry = std::int64_t{t} * writes + n, log = (std::int64_t{local} * writes + n) * columns_;
    const std::int64_t row = std::int64_t{map_.k_row[entry]} * columns_;
    const double k = map_.k(t, n), k2 = k * k, decay = std::exp(map_.g(t, n)), decay2 = decay * decay;
    const double factor = group_factor(map_, form, form.k_group[local * writes + n]);
    double d_k = 0, d_g = 0, d_g_rows = 0, energy = 0;
    for (int c = 0; c < columns_; ++c) {
      const double used = s.used_grad[log + c], decayed = decay * s.old_rows[log + c];
      const double through = used - beta * k * a[c], row_variance = decay2 * old_rows_[log + c];
      double& gradient = grad[row + c];
      double& floor = floor_[row + c];
      const double after = std::max(floor, gradient * (1 - 2 * beta * k2) + beta2 * k2 * a_variance[c]);
      floor *= decay2;
      const double a2 = beta2 * a[c] * a[c];
      d_k += gradient * delta[c] * delta[c] + used * used * delta_variance[c] +
             beta2 * a_variance[c] * decayed * decayed + a2 * row_variance;
      d_g += after * decayed * decayed + through * through * row_variance;
      d_g_rows += gradient * decayed * decayed + through * through * row_variance;
      energy += delta[c] * delta[c] * grad_energy_[row + c] + a2 * decay2 * old_energy_[log + c];
      grad_energy_[row + c] = decay2 * (grad_energy_[row + c] + k2 * a2);
      energy_[row + c] = old_energy_[log + c];
      gradient = decay2 * after;
      bank[row + c] = old_rows_[log + c];
    }
    dots.d_k_var[entry] += d_k + factor * map_.w.head_dim * energy;
    dots.d_g_var[entry] += d_g;
    dots.d_g_token_var[t] += d_g_rows;
    group_energy_[map_.k_row[entry]] += k2 * energy;
  }
}

/// (27) what undo and read_grad add to each gradient row, and their two roundings.
void ErrorWalk::end_gradient_rows(int chunk, const StreamState& s) {
  const ChunkForm& form = forms_[chunk];
  const int begin = map_.chunk_begin(chunk), writes = map_.w.writes, reads = map_.w.reads;
  const auto& written = map_.written[chunk];
  std::vector<double> terms(written.size() * columns_, 0.0);
  for (std::size_t e = 0; e < form.k.size(); ++e) {
    const std::int64_t local = std::int64_t(e) / writes;
    const double scale = map_.beta(begin + int(local)) * form.k[e].value;
    const double factor = scale * scale * (form.k[e].relative + (form.members[form.k_group[e]] + 1) * kU2);
    double* sum = terms.data() + std::int64_t{form.k_group[e]} * columns_;
    for (int c = 0; c < columns_; ++c) sum[c] += factor * std::pow(s.d_delta[local * columns_ + c], 2);
  }
  for (std::size_t g = 0; g < written.size(); ++g)
    for (int c = 0; c < columns_; ++c) {
      const std::int64_t i = std::int64_t{written[g]} * columns_ + c;
      const double end = s.grad_write[i], base = form.group[g].value * s.grad_in[g * columns_ + c], added = end - base;
      grad[i] += terms[g * columns_ + c] + form.group[g].relative * base * base +
                 form.members[g] * kU2 * added * added + kU2 * end * end;
      grad[i] = variance_after_rounding(end, grad[i], map_.w.grad_dtype, options_.round_bank);
    }
  std::vector<std::int32_t> rows(map_.q_row.begin() + std::int64_t{begin} * reads,
                                 map_.q_row.begin() + (std::int64_t{begin} + form.n) * reads);
  for (std::size_t e = 0; e < rows.size(); ++e) {
    const float* d_reading = map_.d_reading(begin + int(e) / reads, s.first_column);
    // A row is folded once per read; how many there are is bounded by the chunk's tokens.
    const double factor = std::pow(form.q[e].value, 2) * (form.q[e].relative + form.n * kU2);
    for (int c = 0; c < columns_; ++c) grad[std::int64_t{rows[e]} * columns_ + c] += factor * std::pow(d_reading[c], 2);
  }
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  for (std::int32_t row : rows) {
    const bool was_written = std::binary_search(written.begin(), written.end(), row);
    for (int c = 0; c < columns_; ++c) {
      const std::int64_t i = std::int64_t{row} * columns_ + c;
      const bool rounds = options_.round_bank && was_written;
      const double base = rounds ? round_to(s.grad_write[i], map_.w.grad_dtype) : s.grad_write[i];
      const double added = s.grad_read[i], end = base + added;
      grad[i] += form.n * kU2 * added * added + kU2 * end * end;
      grad[i] = variance_after_rounding(end, grad[i], map_.w.grad_dtype, options_.round_bank);
    }
  }
}

void finish_dots(const StreamMap& map, const std::vector<ChunkForm>& forms, StreamDots& dots) {
  const int writes = map.w.writes, reads = map.w.reads;
  for (int t = 0; t < map.w.tokens; ++t) {
    const ChunkForm& form = forms[t / map.w.chunk];
    const int local = t % map.w.chunk;
    for (int n = 0; n < writes; ++n) {
      const std::int64_t entry = std::int64_t{t} * writes + n;
      const int group = form.k_group[local * writes + n];
      const double d_g2 = std::pow(dots.d_g[entry], 2) * (decay_factor(map, form, group) + writes * kU2);
      dots.d_k_var[entry] += std::pow(dots.d_k[entry], 2) * group_factor(map, form, group);
      dots.d_g_var[entry] += d_g2;
      dots.d_g_token_var[t] += d_g2;
    }
    for (int m = 0; m < reads; ++m) {
      const std::int64_t entry = std::int64_t{t} * reads + m;
      const double factor = group_factor(map, form, form.q_group[local * reads + m]);
      dots.d_q_var[entry] += std::pow(dots.d_q[entry], 2) * factor;
    }
    dots.d_beta_var[t] += std::pow(dots.d_beta[t], 2) * token_factor(map, form, local);
  }
}

}  // namespace sdm::oracle
