#pragma once
#include <vector>

#include "oracle/chunk_form.h"
#include "oracle/stream.h"

namespace sdm::oracle {

/// Carries, beside the recurrence of one stream and block of columns, the variance of the error that fp32 arithmetic
/// in the chunked form and the roundings of rows may cause. Equations (n) are those of docs/oracle.md.
class ErrorWalk {
 public:
  ErrorWalk(const StreamMap& map, const std::vector<ChunkForm>& forms, const OracleOptions& options, int columns);

  /// Call after a chunk's tokens, before its rows are rounded or its saved rows round-tripped.
  void forward_chunk(int chunk, const StreamState& s);
  /// Call after a chunk's tokens were reversed, before its gradient rows are rounded.
  void reverse_chunk(int chunk, const StreamState& s, StreamDots& dots);

  std::vector<double> bank;     ///< [rows, columns] variances, after forward: of the final bank
  std::vector<double> grad;     ///< [rows, columns] after backward: of the initial bank's gradient
  std::vector<double> reading;  ///< [T, columns]
  std::vector<double> d_v;      ///< [T, columns]

 private:
  void open_floor(int chunk, const std::vector<double>& variances);
  void walk_rows_forward(int chunk);
  void end_rows(int chunk, const StreamState& s);
  void save_rows(int chunk, const StreamState& s);
  void replay_rows(int chunk, const StreamState& s);
  void reverse_token(int t, int local, const ChunkForm& form, const StreamState& s, StreamDots& dots);
  void reverse_reads(int t, const ChunkForm& form, const StreamState& s, StreamDots& dots);
  void reverse_writes(int t, int local, const ChunkForm& form, const StreamState& s, StreamDots& dots);
  void end_gradient_rows(int chunk, const StreamState& s);

  const StreamMap& map_;
  const std::vector<ChunkForm>& forms_;
  const OracleOptions& options_;
  int columns_;
  std::vector<double> delta_local_, retrieved_local_;  ///< [T, columns] made inside the token's own chunk
  std::vector<double> delta_, retrieved_;              ///< [T, columns] all of it
  std::vector<double> retrieved0_;                     ///< [T, columns] square of what the gather retrieves
  std::vector<std::vector<double>> before_;            ///< per chunk [written, columns]
  std::vector<double> d_delta_local_;                  ///< [n, columns]
  std::vector<double> old_rows_, old_energy_;          ///< [n, W, columns]
  std::vector<double> energy_, grad_energy_;           ///< [rows, columns]
  std::vector<double> floor_;                          ///< [rows, columns] what a row's own error decays to
  std::vector<double> group_energy_;                   ///< [rows]
};

/// Adds what depends on the finished sums: roundings proportional to a dot's value. Call once, after all columns.
void finish_dots(const StreamMap& map, const std::vector<ChunkForm>& forms, StreamDots& dots);

}  // namespace sdm::oracle
