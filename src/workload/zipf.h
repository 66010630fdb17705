#pragma once
#include <cstdint>
#include <vector>

#include "base/rng.h"

namespace sdm {

/// x^-s from IEEE +, -, *, / alone, for x >= 1 and s > 0: std::pow differs between libms, and one last bit would move a
/// threshold and with it slots. Relative error below 1e-13 for s*log2(x) < 100; 0 where the result is below 2^-1022.
double inverse_power(double x, double s);

/// Ranks 0 .. n-1 with probability proportional to (rank + 1)^-s.
///
/// The law is held as integer thresholds of buckets: ranks below 2047 have one bucket each; further out a bucket spans
/// 2^-11 of its octave and its ranks are equally likely, which is off by less than a relative s*2^-11. So a table for
/// 2^31 ranks has about 43,000 buckets and building it takes about a millisecond.
class ZipfTable {
 public:
  ZipfTable(std::uint32_t ranks, double s);

  /// The next rank: four words of `random`.
  std::uint32_t draw(RandomSequence& random) const;

 private:
  struct Bucket {
    std::uint64_t end;  ///< this bucket owns the draws in [end of the one before, end), of 2^62
    std::uint32_t first, width;
  };
  std::vector<Bucket> buckets_;
  std::vector<std::uint32_t> guide_;  ///< for each value of a draw's top bits, the first bucket that may own it
};

}  // namespace sdm
