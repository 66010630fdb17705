#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "config/fields.h"

namespace sdm::config {

/// A value given for a field, in canonical form when it is valid. Invalid ones were reported where they stood; they are
/// kept so that nothing else is concluded from the default in their place.
struct Setting {
  Scalar value;
  Origin origin;
  bool valid = true;
};

/// Settings by field path. Later layers are laid over earlier ones: top level, case, sweep point, --set.
using Layer = std::map<std::string, Setting>;

/// The chosen kind of workload, when the layer holds a valid one.
std::optional<WorkloadKind> kind_of(const Layer& layer);

/// workload.distribution.kind of the layer or its default.
std::string distribution_of(const Layer& layer);

/// Lays `top` over `base`. Where `top` chooses another workload kind or distribution, what `base` says for the old one
/// goes; likewise streams against batch and heads.
void overlay(Layer& base, const Layer& top);

/// Reads the value at `path` (a field, or a section that holds fields) into `layer`: unknown keys, wrong types, values
/// out of range are reported and skipped. `inherited`: the kind that holds unless the layer names its own.
void read_settings(const JsonNode& node, const std::string& path, const Origin& origin,
                   std::optional<WorkloadKind> inherited, Layer& layer, Problems& problems);

/// The canonical value for the field at `path`, which must exist; reports what no candidate accepts.
Setting read_scalar(const JsonNode& node, const std::string& path, const Origin& origin,
                    std::optional<WorkloadKind> kind, Problems& problems);

/// Reports a key that an object does not have, with the legal ones.
void report_unknown_key(const std::string& key, const Origin& origin, const std::vector<std::string>& legal,
                        Problems& problems);

/// Reports fields of the layer that a workload of that kind does not have; they are then marked invalid.
void reject_foreign(Layer& layer, WorkloadKind kind, Problems& problems);

}  // namespace sdm::config
