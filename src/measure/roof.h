#pragma once
#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "report/result.h"

namespace sdm {

/// The attainable bandwidth of a backend, in bytes per second: one "copy" point (row_bytes 0; bytes read plus bytes
/// written), then for each row size, in the given order, "row_read" (bytes read) and "row_read_write" (bytes read plus
/// bytes written) over distinct rows in random order. Only row bytes count, not the row numbers. Each point is the
/// median of several runs after one warm-up.
///
/// `row_bytes`: even, in [2, 1 MiB]; UserError otherwise. `seconds`: for all runs together; every point gets at least
/// three. `buffer_bytes`: memory to move rows in; 0 takes what exceeds every cache by far and fits the free memory.
/// Throws Unsupported where the memory is too small, CudaError.
std::vector<RoofPoint> measure_roof(Backend& backend, const std::vector<std::int64_t>& row_bytes, double seconds,
                                    std::uint64_t buffer_bytes = 0);

/// `touched` distinct numbers in [0, rows), random in place and order, the same for the same arguments: one number out
/// of each of `touched` equal ranges, shuffled. Needs 0 < touched <= rows < 2^31.
std::vector<std::int32_t> random_rows(std::int64_t rows, std::int64_t touched, std::uint64_t seed);

}  // namespace sdm
