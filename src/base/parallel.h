#pragma once
#include <cstdint>
#include <functional>
#include <memory>

namespace sdm {

/// A fixed pool of host threads. Results never depend on the number of threads: work is cut by owner, and an owner's
/// sums have one order.
class Parallel {
 public:
  /// `threads` = 0 takes one per hardware thread.
  explicit Parallel(int threads = 0);
  ~Parallel();
  Parallel(const Parallel&) = delete;
  Parallel& operator=(const Parallel&) = delete;

  int threads() const;

  /// Calls `body(begin, end)` over disjoint ranges that cover [0, count), `grain` items at a time, and waits.
  /// The first exception of a body is rethrown here. Not reentrant: a body must not call back into the same pool.
  void for_ranges(std::int64_t count, std::int64_t grain,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

  /// Calls `body(i)` for every i in [0, count), one item at a time: for items that are large.
  template <typename Body>
  void for_each(std::int64_t count, Body&& body) {
    for_ranges(count, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(i);
    });
  }

 private:
  struct Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace sdm
