#pragma once
#include <string>
#include <vector>

#include "config/settings.h"

namespace sdm::config {

/// One axis of a sweep. A plain axis has one path; a linked one has several whose values go together.
struct SweepAxis {
  std::vector<std::string> paths;
  std::vector<std::vector<Setting>> values;  ///< [path][value], lists of one length
  std::size_t size() const { return values.empty() ? 0 : values[0].size(); }
};

/// Axes in the order of the file: they are crossed, the last varies fastest.
using Sweep = std::vector<SweepAxis>;

/// The object under `sweep`: {path: [values], ..., "link": [{path: [values], ...}, ...]}.
Sweep read_sweep(const JsonNode& node, const Origin& origin, std::optional<WorkloadKind> kind, Problems& problems);

/// The values of one swept path; empty after a report when there is anything wrong with the list as a whole.
std::vector<Setting> read_values(const JsonNode& list, const std::string& path, const Origin& origin,
                                 std::optional<WorkloadKind> kind, Problems& problems);

/// Takes a path out of the sweep; an axis without paths goes.
void remove_path(Sweep& sweep, const std::string& path);

/// Number of points, or `limit` + 1 when there are more.
std::size_t count_points(const Sweep& sweep, std::size_t limit);

/// The settings of point `index` in [0, count_points).
Layer settings_at(const Sweep& sweep, std::size_t index);

/// "/chunk=32/writes=16": every swept path with its value, in sweep order. Paths that end alike are told apart by as
/// many of their last components as it takes.
std::string point_name(const Sweep& sweep, std::size_t index);

/// Every path that can be swept or set, once.
std::vector<std::string> sweepable_paths();

}  // namespace sdm::config
