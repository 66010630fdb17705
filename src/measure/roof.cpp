#include "measure/roof.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "base/rng.h"
#include "base/statistics.h"
#include "base/text.h"
#include "kernels/roof/roof.h"

namespace sdm {
namespace {

constexpr std::int64_t kMostRowBytes = std::int64_t{1} << 20;
/// Rows that a pass touches at most: a GPU takes milliseconds for them, and the host makes their order quickly.
constexpr std::int64_t kMostTouched = std::int64_t{1} << 22;
constexpr std::uint64_t kDeviceBufferBytes = std::uint64_t{4} << 30, kHostBufferBytes = std::uint64_t{256} << 20;
constexpr int kLeastRuns = 3, kMostRuns = 15;
constexpr std::uint64_t kSeed = 1;

class Memory {
 public:
  Memory(Backend& backend, std::size_t bytes) : backend_(backend), data_(backend.allocate(bytes)) {}
  ~Memory() { backend_.release(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }

 private:
  Backend& backend_;
  void* data_;
};

void check_row_bytes(const std::vector<std::int64_t>& row_bytes) {
  for (const std::int64_t bytes : row_bytes)
    if (bytes < 2 || bytes % 2 != 0 || bytes > kMostRowBytes)
      throw UserError(fmt::format("row size {} cannot be measured: an even number of bytes from 2 to {} is needed",
                                  bytes, kMostRowBytes));
}

std::uint64_t choose_buffer_bytes(const Backend& backend, std::uint64_t asked) {
  const std::uint64_t wanted = backend.device() ? kDeviceBufferBytes : kHostBufferBytes;
  const std::uint64_t bytes = (asked ? asked : std::min(wanted, backend.free_memory() / 2)) / 4096 * 4096;
  const std::uint64_t least = 4 * static_cast<std::uint64_t>(kMostRowBytes);
  if (bytes < least)
    throw Unsupported(fmt::format("the roof needs {} of memory at least, and {} can be used",
                                  human_bytes(static_cast<double>(least)), human_bytes(static_cast<double>(bytes))));
  return bytes;
}

/// The buffer and the passes over it.
class RoofBench {
 public:
  RoofBench(Backend& backend, double seconds_per_point, std::uint64_t buffer_bytes)
      : backend_(backend),
        seconds_per_point_(seconds_per_point),
        bytes_(buffer_bytes),
        rows_(backend, bytes_),
        order_(backend, static_cast<std::size_t>(kMostTouched) * sizeof(std::int32_t)),
        seen_(backend, roof::kSeenWords * sizeof(std::uint32_t)) {
    if (!backend.device()) threads_ = std::make_unique<Parallel>();
    backend_.fill(rows_.data(), 0x3C, bytes_);
    backend_.fill(seen_.data(), 0, roof::kSeenWords * sizeof(std::uint32_t));
  }

  RoofPoint copy() {
    const std::uint64_t half = bytes_ / 2;
    return point("copy", 0, 2 * half, [&] { copy_half(half); });
  }

  /// "row_read" and "row_read_write" of one row size.
  std::pair<RoofPoint, RoofPoint> rows(std::int64_t row_bytes) {
    const std::int64_t rows = std::min<std::int64_t>(static_cast<std::int64_t>(bytes_) / row_bytes, INT32_MAX);
    const std::int64_t touched = std::min(rows, kMostTouched);
    const std::vector<std::int32_t> order = random_rows(rows, touched, kSeed);
    backend_.upload(order_.data(), order.data(), order.size() * sizeof(std::int32_t));
    roof::RowPass pass{.rows = rows_.data(),
                       .order = static_cast<const std::int32_t*>(order_.data()),
                       .touched = touched,
                       .row_bytes = row_bytes,
                       .seen = static_cast<std::uint32_t*>(seen_.data())};
    const auto bytes = static_cast<std::uint64_t>(touched * row_bytes);
    RoofPoint read = point("row_read", row_bytes, bytes, [&] { run(pass); });
    pass.write_back = true;
    return {std::move(read), point("row_read_write", row_bytes, 2 * bytes, [&] { run(pass); })};
  }

 private:
  void run(const roof::RowPass& pass) {
    if (!backend_.device()) return roof::replay(pass, *threads_);
    roof::launch(pass, backend_.launch_context());
    backend_.after_launch("roof", -1);
  }

  void copy_half(std::uint64_t half) {
    auto* from = static_cast<char*>(rows_.data());
    if (backend_.device()) return backend_.copy(from + half, from, half);
    constexpr std::int64_t kGrain = std::int64_t{4} << 20;
    threads_->for_ranges(static_cast<std::int64_t>(half), kGrain, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(from + half + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
  }

  /// Times `pass`. The warm-up leaves the caches as every later run finds them: full of the end of the same pass, with
  /// as much still to be written back as the run itself will leave.
  RoofPoint point(const char* kind, std::int64_t row_bytes, std::uint64_t bytes, const std::function<void()>& pass) {
    pass();
    backend_.synchronize();
    std::vector<double> times_us;
    double spent_us = 0;
    for (int run = 0; run < kMostRuns && (run < kLeastRuns || spent_us < 1e6 * seconds_per_point_); ++run) {
      backend_.reset_marks();
      const int begin = backend_.mark();
      pass();
      const int end = backend_.mark();
      times_us.push_back(backend_.between_us(begin, end));
      spent_us += times_us.back();
    }
    return {kind, row_bytes, static_cast<double>(bytes) / (1e-6 * median(times_us))};
  }

  Backend& backend_;
  double seconds_per_point_;
  std::uint64_t bytes_;
  Memory rows_, order_, seen_;
  std::unique_ptr<Parallel> threads_;  ///< host only
};

}  // namespace

std::vector<std::int32_t> random_rows(std::int64_t rows, std::int64_t touched, std::uint64_t seed) {
  SDM_REQUIRE(touched > 0 && touched <= rows && rows <= INT32_MAX, "{} of {} rows", touched, rows);
  const std::int64_t range = rows / touched;
  RandomSequence place(seed, Purpose::roof_rows, 0, 0), shuffle(seed, Purpose::roof_rows, 1, 0);
  std::vector<std::int32_t> order(static_cast<std::size_t>(touched));
  for (std::int64_t i = 0; i < touched; ++i)
    order[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>(i * range + place.below(static_cast<std::uint32_t>(range)));
  for (std::size_t i = order.size() - 1; i > 0; --i)
    std::swap(order[i], order[shuffle.below(static_cast<std::uint32_t>(i) + 1)]);
  return order;
}

std::vector<RoofPoint> measure_roof(Backend& backend, const std::vector<std::int64_t>& row_bytes, double seconds,
                                    std::uint64_t buffer_bytes) {
  check_row_bytes(row_bytes);
  const double points = 1.0 + 2.0 * static_cast<double>(row_bytes.size());
  RoofBench bench(backend, seconds / points, choose_buffer_bytes(backend, buffer_bytes));
  std::vector<RoofPoint> result{bench.copy()};
  for (const std::int64_t bytes : row_bytes) {
    auto [read, read_write] = bench.rows(bytes);
    result.push_back(std::move(read));
    result.push_back(std::move(read_write));
  }
  return result;
}

}  // namespace sdm
