#pragma once
#include <optional>

#include "report/compare.h"

namespace sdm {

/// A metric of a pass, a stage, or a value by itself; without a value where it was not measured or the metric is not
/// one of such a timing. Bytes a second and percent of the roof follow the median of the pooled samples.
Measured value_of(const PassTiming& pass, Metric metric);
Measured value_of(const StageTiming& stage, Metric metric);
Measured single_value(const std::optional<double>& value);

}  // namespace sdm
