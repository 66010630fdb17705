#pragma once
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "workload/sparse.h"

namespace sdm::oracle {

/// Nearest value of `dtype` (bf16 or f32), ties to even, subnormals kept, overflow to infinity; held in a double.
double round_to(double x, DType dtype);

/// Distance between neighbouring values of `dtype` around |x| (the wider side at a power of two).
double spacing(double x, DType dtype);

/// Nearest e4m3 value, ties to even, saturating at +-448 (spec 2.5).
double round_e4m3(double x);

/// Nearest integer, ties to even, clamped to [-8, 7] (spec 2.5).
double round_int4(double x);

/// The scale of a quantized row: max(amax / 448 or 7, 1e-12), IEEE float division.
float quantized_scale(std::span<const double> row, SnapshotFormat format);

/// A row as it comes back from a snapshot of `format`, written over itself. `row` must span all head_dim columns for
/// the quantized formats, whose scale depends on the whole row.
void snapshot_round_trip(std::span<double> row, SnapshotFormat format, DType bank_dtype);

}  // namespace sdm::oracle
